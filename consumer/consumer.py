"""The consumer: hands out the committed records of the partitions that are assigned to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Self

from consumer.core.positions import (
    Arrived,
    BackOff,
    DoubtLeader,
    Effect,
    FindPosition,
    Position,
    Positions,
    Refused,
    Reset,
)
from consumer.fetcher import Fetcher
from consumer.finder import Finder
from consumer.reading import Reading
from consumer.records import ConsumerRecord, FetchedBatch, OffsetAndTimestamp
from strandline.adapters.clock import SystemClock
from strandline.adapters.rpc import GrpcTransport
from strandline.client.backoff import backoff_s
from strandline.client.cluster import Cluster
from strandline.client.messages import EARLIEST, LATEST, ListedOffset
from strandline.client.scope import Scope
from strandline.config import ConsumerSettings, load
from strandline.errors import InvalidRequest, StrandlineError, UnknownTopicOrPartition
from strandline.ids import NO_BROKER, TopicPartition
from strandline.ports import Clock, Transport
from strandline.records import validate

logger = logging.getLogger(__name__)


class Consumer:
    """Reads assigned partitions up to their high watermarks (DESIGN §§6, 11).

    `bootstrap` as for a producer; `settings` are those of `ConsumerSettings`. A position moves with what
    was handed out, and by `seek`; a change of leader keeps it. Where there is none, or none that is
    valid, `offset_reset` decides. Iterate over it, or use one of the get calls; what the cluster
    refuses for good is raised there.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        transport: Transport | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        self._settings = load(ConsumerSettings, **settings)
        self._clock = clock or SystemClock()
        self._transport = transport or GrpcTransport()
        self._cluster = Cluster(bootstrap, self._settings, self._transport, self._clock)
        self._scope = Scope("consumer", self._abandon)
        self._positions: Positions[FetchedBatch] = Positions(
            partition_bytes=self._settings.partition_fetch_bytes, buffer_bytes=self._settings.buffer_bytes
        )
        self._finder = Finder(
            cluster=self._cluster,
            positions=self._positions,
            on_found=self._found,
            on_failure=self._note,
            settings=self._settings,
            clock=self._clock,
        )
        self._fetchers: dict[int, Fetcher] = {}
        self._readings: dict[TopicPartition, Reading] = {}
        self._reading: Reading | None = None
        self._errors: dict[TopicPartition, StrandlineError] = {}
        self._untold: set[TopicPartition] = set()
        self._news = asyncio.Event()

    # --- life --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connects only when something is asked."""
        self._loop = asyncio.get_running_loop()
        await self._scope.start()
        self._cluster.on_change(self._leader_changed)
        self._cluster.run(self._scope)

    async def stop(self) -> None:
        """Close. Positions are kept nowhere: who wants them has to ask before."""
        try:
            await self._scope.stop()
        finally:
            self._news.set()
            await self._transport.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _abandon(self, error: BaseException) -> None:
        logger.error("the consumer failed", exc_info=error)
        self._news.set()

    # --- what is read, and where -------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others. Those that are assigned already go on where they are."""
        self._scope.check()
        names = [TopicPartition(*partition) for partition in partitions]
        effects = self._positions.assign(names)
        for name in [name for name in self._errors if self._positions.find(name) is None]:
            self._forget(name)
        for name in [name for name in self._readings if self._positions.find(name) is None]:
            del self._readings[name]
        self._carry_out(effects)
        unknown = {name.topic for name in names if self._cluster.known_topic(name.topic) is None}
        for topic in sorted(unknown):
            self._scope.spawn(self._locate(topic), f"metadata of {topic}")
        for name in names:
            self._leader_changed(name)

    def assignment(self) -> set[TopicPartition]:
        return {state.name for state in self._positions}

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic. Raises UnknownTopicOrPartition, BrokerNotAvailable."""
        self._scope.check()
        return [partition.partition for partition in (await self._cluster.topic(topic)).partitions]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Hand out the record at `offset` next. Raises InvalidRequest if it is not assigned."""
        state = self._assigned(partition)
        if offset < 0:
            raise InvalidRequest(f"offset {offset} of {state.name}: offsets begin at 0")
        self._positions.seek(state.name, offset)
        self._forget(state.name)
        self._wake(state.broker)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go where the logs start; without arguments in all assigned partitions."""
        await self._seek_to(partitions, Reset.EARLIEST)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go to the high watermarks of now; without arguments in all assigned partitions."""
        await self._seek_to(partitions, Reset.LATEST)

    async def _seek_to(self, partitions: Sequence[TopicPartition], reset: Reset) -> None:
        names = [self._assigned(name).name for name in partitions or self.assignment()]
        self._carry_out([effect for name in names for effect in self._positions.unknown(name, reset)])
        for name in names:
            await self.position(name)

    async def position(self, partition: TopicPartition) -> int:
        """Offset of the record that is handed out next; waits until it is found.

        Raises InvalidRequest if the partition is not assigned, and what keeps the position from being found.
        """
        state = self._assigned(partition)
        while state.position is None:
            error = self._errors.get(state.name)
            if error is not None:
                raise error
            await self._wait_for_news(None)
            state = self._assigned(partition)
        return state.position

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out and fetch nothing of these until `resume`; their positions stay."""
        for partition in partitions:
            self._positions.pause(self._assigned(partition).name)

    def resume(self, *partitions: TopicPartition) -> None:
        for partition in partitions:
            state = self._assigned(partition)
            self._positions.resume(state.name)
            self._wake(state.broker)

    def paused(self) -> set[TopicPartition]:
        return {state.name for state in self._positions if state.paused}

    def highwater(self, partition: TopicPartition) -> int | None:
        """The high watermark of the last answer, None before the first. It never goes back."""
        return self._assigned(partition).high_watermark

    def lag(self, partition: TopicPartition) -> int | None:
        """Committed records that were not handed out yet, None while that is not known."""
        state = self._assigned(partition)
        if state.high_watermark is None or state.position is None:
            return None
        return max(0, state.high_watermark - state.position)

    def _assigned(self, partition: TopicPartition) -> Position[FetchedBatch]:
        self._scope.check()
        state = self._positions.find(TopicPartition(*partition))
        if state is None:
            raise InvalidRequest(f"{TopicPartition(*partition)} is not assigned to this consumer")
        return state

    # --- offsets -----------------------------------------------------------------------------

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the logs of these partitions start, assigned or not."""
        found = await self._list(dict.fromkeys(partitions, EARLIEST))
        return {name: listed.offset for name, listed in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermarks of these partitions, assigned or not."""
        found = await self._list(dict.fromkeys(partitions, LATEST))
        return {name: listed.offset for name, listed in found.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record not older than a time (milliseconds since the Unix epoch), by partition;
        None where no record is that young."""
        for name, timestamp in timestamps.items():
            if timestamp < 0:
                raise InvalidRequest(
                    f"timestamp {timestamp} for {name}: give milliseconds since the Unix epoch"
                )
        found = await self._list(timestamps)
        return {
            name: None if listed.offset < 0 else OffsetAndTimestamp(listed.offset, listed.timestamp_ms)
            for name, listed in found.items()
        }

    async def _list(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        self._scope.check()
        return await self._finder.list({TopicPartition(*name): at for name, at in wanted.items()})

    # --- handing out -------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, ConsumerRecord]:
        return self.getone()

    async def getone(self) -> ConsumerRecord:
        """The next record, as soon as there is one. Partitions take turns batch by batch."""
        while True:
            reading = self._reading
            if reading is not None and reading.incarnation == reading.state.incarnation:
                for record in reading.records:
                    reading.state.position = record.offset + 1
                    return record
            self._reading = None
            self._raise_untold()
            for state in self._turns(()):
                self._reading = self._open(state)
                if self._reading is not None:
                    # Who never waits for a record lets the next ones come in here.
                    await asyncio.sleep(0)
                    break
            else:
                await self._wait_for_news(None)

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records that are there, by partition, at most `max_records` (or `poll_records_max`); waits up
        to `timeout_ms` for the first. Without arguments of all assigned partitions."""
        limit = self._settings.poll_records_max if max_records is None else max_records
        deadline = self._clock.monotonic() + timeout_ms / 1000
        await asyncio.sleep(0)
        self._raise_untold()
        while True:
            taken: dict[TopicPartition, list[ConsumerRecord]] = {}
            left = limit
            for state in self._turns(partitions):
                while left > 0 and (reading := self._open(state)) is not None:
                    records = list(islice(reading.records, left))
                    left -= len(records)
                    state.position = records[-1].offset + 1
                    taken.setdefault(state.name, []).extend(records)
            if taken or not await self._wait_for_news(deadline):
                return taken

    async def getbatches(self, *partitions: TopicPartition, timeout_ms: int = 0) -> list[FetchedBatch]:
        """All batches that are there, undecoded: the fast way. Waits up to `timeout_ms` for the first."""
        deadline = self._clock.monotonic() + timeout_ms / 1000
        await asyncio.sleep(0)
        self._raise_untold()
        while True:
            taken: list[FetchedBatch] = []
            for state in self._turns(partitions):
                reading = self._readings.pop(state.name, None)
                if reading is not None and reading.left:
                    assert state.position is not None
                    taken.append(reading.batch._replace(from_offset=state.position))
                while state.buffered:
                    taken.append(self._take(state))
                if taken and taken[-1].name == state.name:
                    state.position = taken[-1].next_offset
            self._reading = None
            if taken or not await self._wait_for_news(deadline):
                return taken

    def _turns(self, partitions: Sequence[TopicPartition]) -> list[Position[FetchedBatch]]:
        """The partitions that may be read, in the order of their turns."""
        if partitions:
            wanted = {self._assigned(partition).name for partition in partitions}
            return [state for state in self._positions if state.name in wanted and not state.paused]
        return [state for state in self._positions if not state.paused]

    def _open(self, state: Position[FetchedBatch]) -> Reading | None:
        """The batch of this partition that is being handed out, or the next one; None if there is none."""
        reading = self._readings.get(state.name)
        if reading is not None and reading.left:
            return reading
        if not state.buffered:
            return None
        try:
            reading = Reading(state, self._take(state))
        except StrandlineError as error:
            assert state.position is not None
            self._positions.seek(state.name, state.position)  # so that nothing is skipped
            self._carry_out(self._positions.refuse(state.name, error))
            raise
        self._readings[state.name] = reading
        return reading

    def _take(self, state: Position[FetchedBatch]) -> FetchedBatch:
        batch = self._positions.take(state, state.buffered[0].size)
        self._wake(state.broker)
        return batch

    async def _wait_for_news(self, deadline: float | None) -> bool:
        """Wait until something arrived, a position was found or an error met; False at the deadline.

        Raises the errors that stand, in turn.
        """
        self._scope.check()
        self._raise_untold()
        for name, error in self._errors.items():
            self._errors[name] = self._errors.pop(name)
            raise error
        self._news.clear()
        if deadline is None:
            await self._news.wait()
            return True
        left = deadline - self._clock.monotonic()
        if left <= 0:
            return False
        try:
            async with asyncio.timeout(left):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _raise_untold(self) -> None:
        """A new error is told before any more records, lest a busy partition hides another's end."""
        if self._untold:
            name = self._untold.pop()
            raise self._errors[name]

    # --- what the core decides ---------------------------------------------------------------

    def _carry_out(self, effects: list[Effect]) -> None:
        searches: list[FindPosition] = []
        for effect in effects:
            match effect:
                case Arrived(name, offset, records):
                    self._arrived(name, offset, records)
                case FindPosition():
                    self._forget(effect.name)
                    searches.append(effect)
                case DoubtLeader(name, error):
                    self._cluster.follow(name, error)
                case BackOff(name, attempt):
                    self._loop.call_later(backoff_s(self._settings, attempt), self._backed_off, name, attempt)
                case Refused(name, error):
                    self._note(name, error)
        if searches:
            self._scope.spawn(self._finder.find(searches), "positions")

    def _arrived(self, name: TopicPartition, offset: int, records: bytes) -> None:
        try:
            headers = validate(records)
        except StrandlineError as error:
            self._carry_out(self._positions.refuse(name, error))
            return
        for header in headers:
            if header.next_offset > offset and not header.is_control:
                batch = FetchedBatch(name, header, records, offset)
                self._positions.buffer(name, batch, header.size, header.next_offset)
        self._forget(name)
        self._news.set()

    def _note(self, name: TopicPartition, error: StrandlineError) -> None:
        """Have the next get call raise this."""
        if name not in self._errors:
            self._untold.add(name)
        self._errors[name] = error
        self._news.set()

    def _found(self, name: TopicPartition) -> None:
        """A position is there."""
        self._forget(name)
        self._news.set()
        self._leader_changed(name)

    def _forget(self, name: TopicPartition) -> None:
        self._errors.pop(name, None)
        self._untold.discard(name)

    def _backed_off(self, name: TopicPartition, attempt: int) -> None:
        self._positions.backed_off(name, attempt)
        state = self._positions.find(name)
        if state is not None:
            self._wake(state.broker)

    def _wake(self, broker: int) -> None:
        if broker == NO_BROKER:
            return
        fetcher = self._fetchers.get(broker)
        if fetcher is None:
            fetcher = self._fetchers[broker] = Fetcher(
                broker,
                cluster=self._cluster,
                positions=self._positions,
                carry_out=self._carry_out,
                settings=self._settings,
                clock=self._clock,
            )
            self._scope.spawn(fetcher.run(), f"broker {broker}")
        fetcher.wake()

    def _leader_changed(self, name: TopicPartition) -> None:
        leader = self._cluster.leader(name)
        if leader is None or self._positions.find(name) is None:
            return
        self._positions.led(name, leader.broker, leader.epoch)
        if leader.broker == NO_BROKER:
            self._cluster.doubt(name)
        else:
            self._wake(leader.broker)

    async def _locate(self, topic: str) -> None:
        """Learn a topic's leaders, for partitions whose position needs nobody to be asked."""
        try:
            metadata = await self._cluster.topic(topic)
        except StrandlineError as error:
            for name in [state.name for state in self._positions if state.name.topic == topic]:
                self._note(name, error)
            return
        for name in [state.name for state in self._positions if state.name.topic == topic]:
            if name.partition >= len(metadata.partitions):
                self._note(name, UnknownTopicOrPartition(f"{topic} has no partition {name.partition}"))
            self._leader_changed(name)
