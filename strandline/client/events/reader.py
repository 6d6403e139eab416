"""Reads an internal topic: each committed record once, over any change of leaders.

One task for each broker fetches the partitions that the broker leads, one request at a time. Fetching pauses
while the buffer is full, so a slow owner of the reader slows only the fetches.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from strandline.adapters.codecs.log import FETCH, answer_to
from strandline.client.broker_stream import CallStream
from strandline.client.client import Client
from strandline.client.events.positions import EventPosition, EventPositions, EventRecord
from strandline.client.offsets import list_offsets
from strandline.client.retry import Tries, retry
from strandline.config.client import ClientSettings
from strandline.config.limits import MIB, RECORDS_BYTES_MAX
from strandline.config.load import load
from strandline.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    OffsetNotAvailable,
    OffsetOutOfRange,
    Outcome,
    StrandlineError,
    UnknownLeaderEpoch,
)
from strandline.ids import NO_BROKER, NO_EPOCH, TopicPartition
from strandline.ports import Clock, Transport
from strandline.vocabulary.log import (
    EARLIEST,
    LATEST,
    FetchAnswer,
    Fetched,
    FetchPartition,
    FetchRequest,
    ListedOffset,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

BUFFER_BYTES_MAX: Final = 1 * MIB
"""Limit of the records that are fetched and not handed out yet; then fetching pauses."""
FETCH_WAIT_MS: Final = 500
STALL_S_MAX: Final = 30.0
"""A reader that does not follow the topic gives up after this time without an answer."""
LOCATE_PAUSE_S: Final = 1.0
"""The pause before another look for a topic that does not exist."""
CLOCKS_APART_MS_MAX: Final = 60_000
"""The timestamp of a record and the time in its event may be of different clocks: reading begins this much
earlier."""


class EventReader(Client[ClientSettings]):
    """One reading of one topic. It ends with the last record that was committed when it began, or `follow`s.

    It begins at `from_offsets`, one for each partition; else at records written a little before `since_ms`
    (milliseconds since the Unix epoch), or at the start of the topic. A missing topic counts as empty; with
    `follow` it is waited for. The reader does not close the transport.
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
        super().__init__("event reader", bootstrap, load(ClientSettings, **settings), transport, clock)
        self.topic = topic
        self._follow = follow
        self._from_offsets = tuple(from_offsets)
        self._since_ms = since_ms
        self._positions: EventPositions | None = None
        self._error: StrandlineError | None = None
        self._progress = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._led_again: dict[int, asyncio.Event] = {}
        self._numbers = itertools.count(1)
        self._moved_at = self._clock.monotonic()
        """When a record last arrived, or was handed out."""

    async def start(self) -> None:
        await super().start()
        self._cluster.on_change(self._leader_changed)
        self._scope.spawn(self._begin(), "begin")

    async def stop(self) -> None:
        """The transport stays open."""
        await self._scope.stop()

    # --- handing out -------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """True once all records from before the reading began are handed out; never if it follows."""
        return self._positions is not None and self._positions.ended

    @property
    def next_offsets(self) -> tuple[int, ...]:
        """The offsets at which another reader continues after this one; before the begin `from_offsets`."""
        return self._from_offsets if self._positions is None else self._positions.next_offsets

    async def read(self, timeout_s: float) -> list[EventRecord]:
        """The records of one batch, in order; none after the timeout, or if the reading has ended.

        Raises InvalidRequest for `from_offsets` that do not fit the topic, OffsetOutOfRange for an offset
        outside the log, LeaderNotAvailable, CorruptMessage.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    self._scope.check()
                    records = None if self._positions is None else self._positions.take()
                    if records is not None:
                        self._moved_at = self._clock.monotonic()
                        if self._positions is not None and self._positions.has_room:
                            self._room.set()
                        return records
                    if self._error is not None:
                        raise self._error
                    if self.ended:
                        return []
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            self._check_stalled()
            return []

    def _check_stalled(self) -> None:
        stalled_s = self._clock.monotonic() - self._moved_at
        if self._positions is None or self._follow or stalled_s < STALL_S_MAX:
            return
        left = ", ".join(str(p.name) for p in self._positions if not p.complete)
        raise LeaderNotAvailable(f"no leader has answered for {stalled_s:.0f} s: {left}")

    def _fail(self, error: StrandlineError) -> None:
        """End the reading with this error. Records that have arrived are handed out first."""
        if self._error is None:
            self._error = error
            self._progress.set()

    def _failed(self, error: BaseException) -> None:
        """`read` raises the error, through the scope's check."""
        logger.error("reading %s failed", self.topic, exc_info=error)
        self._progress.set()

    # --- finding the beginning ---------------------------------------------------------------

    async def _begin(self) -> None:
        try:
            count = await self._count()
            starts, ends = await self._bounds(count)
        except StrandlineError as error:
            self._fail(error)
            return
        self._positions = EventPositions(self.topic, starts, ends, buffer_bytes=BUFFER_BYTES_MAX)
        self._moved_at = self._clock.monotonic()
        self._progress.set()
        for position in list(self._positions):
            self._leader_changed(position.name)

    async def _count(self) -> int:
        """The partition count of the topic; 0 if it does not exist and is not waited for."""
        while True:
            counts = await self._retried(lambda: self._cluster.partition_counts([self.topic]))
            count = counts.get(self.topic, 0)
            if count or not self._follow:
                return count
            await self._clock.sleep(LOCATE_PAUSE_S)

    async def _bounds(self, count: int) -> tuple[Sequence[int], Sequence[int] | None]:
        """The offsets to begin at, and those to end at. Raises InvalidRequest, OffsetOutOfRange."""
        starts: Sequence[int] = self._from_offsets
        if starts and len(starts) != count:
            raise InvalidRequest(
                f"from_offsets = {list(starts)}: topic {self.topic} has {count} partitions, give one for each"
            )
        if count:
            await self._retried(lambda: self._cluster.topic(self.topic, partitions_min=count))
        if not starts:
            since_ms = self._since_ms - CLOCKS_APART_MS_MAX
            starts = await self._list(count, since_ms if since_ms > 0 else EARLIEST)
        if self._follow:
            return starts, None
        ends = await self._list(count, LATEST)
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if start > end:
                raise OffsetOutOfRange(f"offset {start} of {self.topic}-{number} is behind its end, {end}")
        return starts, ends

    async def _list(self, count: int, timestamp_ms: int) -> list[int]:
        names = [TopicPartition(self.topic, number) for number in range(count)]
        found = await self._retried(lambda: self._look_up(names, timestamp_ms))
        # If no record is that recent, the next one is the first.
        return [each.offset if each.offset >= 0 else each.high_watermark for each in found]

    async def _look_up(self, names: Sequence[TopicPartition], timestamp_ms: int) -> list[ListedOffset]:
        """One look at each of these partitions. Raises the first one's error."""
        cluster, wanted = self._cluster, dict.fromkeys(names, timestamp_ms)
        timeout_s = cluster.request_timeout_s
        found = await list_offsets(cluster, wanted, self._settings, self._clock, timeout_s=timeout_s)
        listed = []
        for name in names:
            if isinstance(end := found[name], StrandlineError):
                raise end
            listed.append(end)
        return listed

    async def _retried(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Retry, within the request timeout unless this reader follows. Raises the last error."""
        return await retry(
            ask,
            f"reading {self.topic} waits",
            settings=self._settings,
            clock=self._clock,
            limit_s=float("inf") if self._follow else self._cluster.request_timeout_s,
        )

    # --- fetching ----------------------------------------------------------------------------

    def _leader_changed(self, name: TopicPartition) -> None:
        positions = self._positions
        if positions is None or name.topic != self.topic:
            return
        positions.grow(name.partition + 1)
        leader = self._cluster.leader(name)
        if leader is None or name.partition >= len(positions) or positions[name.partition].complete:
            return
        if leader.broker == NO_BROKER:
            self._cluster.doubt(name)
        elif leader.broker in self._led_again:
            self._led_again[leader.broker].set()
        else:
            led_again = self._led_again[leader.broker] = asyncio.Event()
            self._scope.spawn(
                self._fetch_from(leader.broker, led_again, positions), f"broker {leader.broker}"
            )

    def _wanted(self, broker: int, positions: EventPositions) -> list[EventPosition]:
        def led(name: TopicPartition) -> bool:
            leader = self._cluster.leader(name)
            return leader is not None and leader.broker == broker

        return positions.wanted(led)

    async def _fetch_from(self, broker: int, led_again: asyncio.Event, positions: EventPositions) -> None:
        """Fetch from the broker whenever it leads a wanted partition."""
        tries = Tries(self._settings, self._clock)
        while True:
            while not self._wanted(broker, positions):
                led_again.clear()
                await led_again.wait()
            try:
                await self._exchange(broker, positions)
                tries.reset()
            except StrandlineError as error:
                tries.log(logger, f"{self.topic} cannot be read at broker {broker}", error)
                for position in self._wanted(broker, positions):
                    self._cluster.follow(position.name, error)
                await tries.pause()

    async def _exchange(self, broker: int, positions: EventPositions) -> None:
        """Fetch over one stream until the broker leads no wanted partition, or a call fails."""
        limit_s = FETCH_WAIT_MS / 1000 + self._cluster.request_timeout_s
        calls = CallStream(self._cluster, FETCH, limit_s)
        tries = Tries(self._settings, self._clock)
        try:
            while True:
                await self._room.wait()
                wanted = self._wanted(broker, positions)
                if not wanted:
                    return
                asked = {position.name: (position, position.fetched) for position in wanted}
                response = await self._ask(calls, broker, wanted)
                failed = False
                for answer in response.partitions:
                    position, offset = asked[answer.name]
                    failed = not await self._take(positions, position, offset, answer) or failed
                if not positions.has_room:
                    self._room.clear()
                if failed:
                    await tries.pause()
                else:
                    tries.reset()
        finally:
            calls.close()

    async def _ask(
        self,
        calls: CallStream[FetchRequest, FetchAnswer],
        broker: int,
        wanted: Sequence[EventPosition],
    ) -> FetchAnswer:
        """One long poll. Raises OutcomeUnknown if it is not answered."""
        number = next(self._numbers)
        turn = number % len(wanted)  # an answer has a size limit: the first partition changes each time
        leaders = [(p, self._cluster.leader(p.name)) for p in (*wanted[turn:], *wanted[:turn])]
        partitions = [
            FetchPartition(
                p.name, p.fetched, NO_EPOCH if leader is None else leader.epoch, RECORDS_BYTES_MAX,
                last_epoch=p.epoch,
            )
            for p, leader in leaders
        ]  # fmt: skip
        request = FetchRequest(number, FETCH_WAIT_MS, 1, RECORDS_BYTES_MAX, partitions)
        return await calls.call(broker, request, partial(answer_to, number))

    async def _take(
        self, positions: EventPositions, position: EventPosition, offset: int, answer: Fetched
    ) -> bool:
        """False if the partition has to be requested again after a pause."""
        error = answer.error
        try:
            if answer.diverging is not None and position.fetched == offset:
                logger.warning(
                    "%s has lost records in an election: it is read on from %d, where it was cut",
                    position.name, answer.diverging.end_offset,
                )  # fmt: skip
                positions.cut(position, answer.diverging, answer.high_watermark)
                self._progress.set()
                return True
            if error is None:
                if answer.records and positions.arrived(position, offset, answer.records):
                    self._moved_at = self._clock.monotonic()
                    self._progress.set()
                return True
            if position.fetched != offset:
                return True  # another broker has answered meanwhile
            if isinstance(error, OffsetOutOfRange):
                await self._go_to_start(positions, position, error)
                return True
        except StrandlineError as failure:
            error = failure
        if error.outcome is Outcome.FATAL:
            self._fail(error)
        elif not isinstance(error, OffsetNotAvailable | UnknownLeaderEpoch):
            self._cluster.follow(position.name, error)
        return False

    async def _go_to_start(
        self, positions: EventPositions, position: EventPosition, error: OffsetOutOfRange
    ) -> None:
        """Retention has deleted the next records: continue at the log's start. Raises `error` if the log ends
        before them."""
        (listed,) = await self._look_up([position.name], EARLIEST)
        if position.fetched >= listed.offset:
            raise error
        logger.warning("%s is read on from %d: %s", position.name, listed.offset, error)
        positions.skip_to(position, listed.offset)
        self._progress.set()
