"""Reads all partitions of one topic without a group: each committed record once, over any change of leaders.

What is fetched and not handed out yet is bounded, so a slow owner of the reader slows only the fetches.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from strandline.client.reading.client import ReadingClient
from strandline.client.reading.records import ConsumerRecord
from strandline.client.retry import retry
from strandline.config.consumer import ConsumerSettings
from strandline.config.limits import MIB
from strandline.config.load import load
from strandline.errors import InvalidRequest, LeaderNotAvailable, OffsetOutOfRange, StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Clock, Transport
from strandline.vocabulary.log import EARLIEST, LATEST, ListedOffset
from strandline.vocabulary.log_position import LogPosition

logger = logging.getLogger(__name__)

T = TypeVar("T")

BUFFER_BYTES_MAX: Final = 1 * MIB
"""Limit of the records that are fetched and not handed out yet; then fetching pauses."""
STALL_S_MAX: Final = 30.0
"""A reader that does not follow the topic gives up after this time without a record."""
LOOK_S: Final = 1.0
"""How long nothing may arrive before a reader that does not follow looks where the logs end now; also the
pause before another look for a topic that does not exist."""
CLOCKS_APART_MS_MAX: Final = 60_000
"""The timestamp of a record and the time in its value may be of different clocks: reading begins this much
earlier."""


class TopicReader(ReadingClient):
    """One reading of one topic. It ends with the last record that was committed when it began, or `follow`s.

    It begins at `from_offsets`, one for each partition; else at records written a little before `since_ms`
    (milliseconds since the Unix epoch), or at the start of the topic. A missing topic counts as empty; with
    `follow` it is waited for. A log that was cut is read on where it was cut, one whose next records were
    deleted from its start, and a topic that was made anew from its first record, each with a warning.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        topic: str,
        *,
        follow: bool,
        from_offsets: Sequence[int] = (),
        since_ms: int = 0,
        transport: Transport,
        clock: Clock,
        **settings: Any,
    ) -> None:
        """`settings` as for a consumer."""
        given = load(ConsumerSettings, offset_reset="earliest", buffer_bytes=BUFFER_BYTES_MAX, **settings)
        super().__init__("topic reader", bootstrap, given, transport, clock)
        self._topic = topic
        self._follow = follow
        self._from_offsets = tuple(from_offsets)
        self._since_ms = since_ms
        self._names: list[TopicPartition] = []
        self._ends: dict[TopicPartition, int] = {}
        """Where the reading ends in the partitions that were not read up to there."""
        self._begun = False
        self._moved_at = clock.monotonic()
        """When records were last handed out (monotonic seconds)."""
        self._looked_at = self._moved_at

    async def start(self) -> None:
        await super().start()
        self._cluster.on_change(self._grow)
        self._scope.spawn(self._begin(), "begin")

    # --- handing out -------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """True once all records from before the reading began are handed out; never if it follows."""
        return self._begun and not self._follow and not self._ends

    @property
    def next_offsets(self) -> tuple[int, ...]:
        """For each partition the offset behind the last record handed out, where another reader continues;
        before the begin `from_offsets`. 0: it goes on where its log starts."""
        if not self._begun:
            return self._from_offsets
        return tuple(self._reader.positions[name].position or 0 for name in self._names)

    async def read(self, timeout_s: float) -> list[ConsumerRecord]:
        """The records of one batch, in order; none after the timeout, or if the reading has ended.

        Raises InvalidRequest for `from_offsets` that do not fit the topic, OffsetOutOfRange for an offset
        behind the log's end, LeaderNotAvailable, UndecodableBatch. Records from before an error come first.
        """
        deadline = self._clock.monotonic() + timeout_s
        while True:
            self._scope.check()
            records = self._take()
            if records is not None:
                self._moved_at = self._clock.monotonic()
                return records
            self._check()
            if self.ended:
                return []
            if not await self._wakeups.wait(deadline):
                await self._look()
                return []

    def _take(self) -> list[ConsumerRecord] | None:
        """The next batch of the partition that waits longest for its turn; None while nothing waits."""
        self._complete()
        while (state := next((each for each in self._reader.positions if each.buffered), None)) is not None:
            records = state.buffered[0].records()  # before it is taken: an error must not leave it out
            self._reader.take(state.name)
            end = self._ends.get(state.name)
            if end is not None and state.position is not None and state.position > end:
                state.processed = state.position = end
                records = [record for record in records if record.offset < end]
            self._complete()
            if records:
                return records
        return None

    def _complete(self) -> None:
        """Stop reading the partitions whose end is reached."""
        for name, end in list(self._ends.items()):
            at = self._reader.positions[name].position
            if at is not None and at >= end:
                del self._ends[name]
                self._reader.hold([name])

    def _check(self) -> None:
        """Raises the error because of which nothing more comes."""
        if self._wakeups.fatal is not None:
            raise self._wakeups.fatal
        for name in self._names:
            error = self._wakeups.error(name)
            if error is not None and not error.retriable:
                raise error

    async def _look(self) -> None:
        """Nothing arrives: a log that was cut, or made anew, may end earlier by now."""
        now = self._clock.monotonic()
        if not self._ends or now - max(self._moved_at, self._looked_at) < LOOK_S:
            return
        self._looked_at = now
        stalled_s = now - self._moved_at
        if stalled_s >= STALL_S_MAX:
            names = ", ".join(map(str, self._ends))
            raise LeaderNotAvailable(f"no leader has sent records for {stalled_s:.0f} s: {names}")
        try:
            listed = await self._reader.finder.list(dict.fromkeys(self._ends, LATEST), LOOK_S)
        except StrandlineError as error:
            logger.debug("%s: %s", self._topic, error)
            return
        for name, each in listed.items():
            at = self._reader.positions[name].position
            if at is not None and at <= each.log_end_offset:
                self._ends[name] = min(self._ends[name], each.log_end_offset)
        self._complete()

    # --- finding the beginning ---------------------------------------------------------------

    async def _begin(self) -> None:
        try:
            count = await self._count()
            starts, ends = await self._bounds([TopicPartition(self._topic, each) for each in range(count)])
        except StrandlineError as error:
            self._wakeups.fail(error)
            return
        for name, start in starts.items():
            self._read(name, LogPosition(start, ends[name].topic_id))
            if not self._follow:
                self._ends[name] = ends[name].offset
        self._complete()
        self._begun = True
        self._moved_at = self._clock.monotonic()
        known = self._cluster.known_topic(self._topic)
        if known is not None:
            self._grow(TopicPartition(self._topic, len(known.partitions) - 1))
        self._wakeups.arrived()

    def _read(self, name: TopicPartition, at: LogPosition) -> None:
        self._names.append(name)
        self._reader.add([name])
        self._reader.seek_to(name, at)

    def _grow(self, name: TopicPartition) -> None:
        """A reader that follows the topic reads new partitions from their start."""
        if name.topic == self._topic and self._follow and self._begun:
            for number in range(len(self._names), name.partition + 1):
                self._read(TopicPartition(self._topic, number), LogPosition(0))

    async def _count(self) -> int:
        """The partition count of the topic; 0 if it does not exist and is not waited for."""
        while True:
            counts = await self._retried(lambda: self._cluster.partition_counts([self._topic]))
            count = counts.get(self._topic, 0)
            if count or not self._follow:
                return count
            await self._clock.sleep(LOOK_S)

    async def _bounds(
        self, names: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ListedOffset]]:
        """The offsets to begin at, and where the logs end. Raises InvalidRequest, OffsetOutOfRange."""
        if self._from_offsets and len(self._from_offsets) != len(names):
            raise InvalidRequest(
                f"from_offsets = {list(self._from_offsets)}: topic {self._topic} has {len(names)} "
                "partitions, give one for each"
            )
        if not names:
            return {}, {}
        await self._retried(lambda: self._cluster.topic(self._topic, partitions_min=len(names)))
        starts = dict(zip(names, self._from_offsets, strict=False))
        if not starts:
            since_ms = self._since_ms - CLOCKS_APART_MS_MAX
            found = await self._list(names, since_ms if since_ms > 0 else EARLIEST)
            starts = {name: each.offset for name, each in found.items()}
        ends = await self._list(names, LATEST)
        # If no record is that recent, the next one is the first.
        starts = {name: start if start >= 0 else ends[name].offset for name, start in starts.items()}
        for name, start in starts.items():
            end = ends[name].log_end_offset if self._follow else ends[name].offset
            if start > end:
                raise OffsetOutOfRange(f"offset {start} of {name} is behind its end, {end}")
        return starts, ends

    async def _list(
        self, names: Sequence[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, ListedOffset]:
        return await self._retried(lambda: self._reader.finder.list(dict.fromkeys(names, timestamp_ms)))

    async def _retried(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Retry, within the request timeout unless this reader follows. Raises the last error."""
        return await retry(
            ask,
            f"reading {self._topic} waits",
            settings=self._settings,
            clock=self._clock,
            limit_s=float("inf") if self._follow else self._cluster.request_timeout_s,
        )
