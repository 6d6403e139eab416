"""Reads partitions ahead of its owner: finds positions, fetches, buffers, follows leaders.

It carries out the effects of the positions' core.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from strandline.client import arguments
from strandline.client.backoff import backoff_s
from strandline.client.cluster import Cluster
from strandline.client.core.effects import (
    Arrived,
    Cut,
    DelayFetch,
    DoubtLeader,
    Effect,
    FindPosition,
    MadeAnew,
    Refused,
    Reset,
    Waits,
)
from strandline.client.core.positions import Position, Positions
from strandline.client.reading.batches import batches_of
from strandline.client.reading.fetcher import Fetcher, FetchMeasures
from strandline.client.reading.position_finder import LOOKUP_PAUSE_S, PositionFinder
from strandline.client.reading.records import FetchedBatch
from strandline.client.reading.wakeups import Wakeups
from strandline.client.scope import Scope
from strandline.client.waits import Notice
from strandline.config.consumer import ConsumerSettings
from strandline.errors import (
    InvalidRequest,
    OffsetOutOfRange,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.ids import NO_BROKER, TopicId, TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.log_position import LogPosition
from strandline.vocabulary.metadata import TopicMetadata

logger = logging.getLogger(__name__)


class PartitionReader:
    """Reads for a consumer, and for each client that reads partitions without one (`ReadingClient`).

    Others read `positions` directly, and change them only through the reader.
    """

    def __init__(
        self,
        *,
        cluster: Cluster,
        scope: Scope,
        wakeups: Wakeups,
        settings: ConsumerSettings,
        clock: Clock,
        follows_topics: bool = True,
    ) -> None:
        """`follows_topics`: goes on with a topic that was made anew, or whose log was cut. Without it the
        caller finds out itself what it reads."""
        self._cluster = cluster
        self._scope = scope
        self._wakeups = wakeups
        self._settings = settings
        self._clock = clock
        self.measures = FetchMeasures(clock)
        self.positions: Positions[FetchedBatch] = Positions(
            partition_bytes=settings.partition_fetch_bytes,
            buffer_bytes=settings.buffer_bytes,
            names_log=follows_topics,
            stable=settings.stable,
        )
        self._follows_topics = follows_topics
        self.finder = PositionFinder(
            cluster=cluster,
            positions=self.positions,
            on_found=self._found,
            on_failure=self._failed,
            settings=settings,
            clock=clock,
        )
        self.subscribed = False
        """True while a group assigns the partitions."""
        self.on_recreated: Callable[[str, TopicId, TopicId], None] = lambda topic, before, now: None
        """Called with the two ids of a topic that was made anew while partitions of it are assigned."""
        self._fetchers: dict[int, Fetcher] = {}
        self._notices: dict[TopicPartition, Notice] = {}
        """Of partitions whose leader could not answer."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._follows_topics:
            self._cluster.on_topic(self._topic_learned)
        self._cluster.on_change(self._leader_changed)

    # --- what is read ------------------------------------------------------------------------

    def assign(self, names: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others. Those that are already assigned keep their positions."""
        wanted = dict.fromkeys(names)
        self.drop([state.name for state in self.positions if state.name not in wanted])
        self.add(wanted)

    def add(self, names: Iterable[TopicPartition], *, held: bool = False) -> None:
        """Read these partitions too. Held ones get a position now, but are read only after `let_go`."""
        wanted = list(names)
        self.carry_out(self.positions.add(wanted, held=held))
        unknown: dict[str, int] = {}
        for name in wanted:
            known = self._cluster.known_topic(name.topic)
            if known is None or name.partition >= len(known.partitions):
                unknown[name.topic] = max(unknown.get(name.topic, 0), name.partition + 1)
        for topic, partitions_min in unknown.items():
            self._scope.spawn(self._locate(topic, partitions_min), f"metadata of {topic}")
        for name in wanted:
            self._leader_changed(name)

    def drop(self, names: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions."""
        wanted = self._present(names)
        self.positions.drop(wanted)
        for name in wanted:
            self._wakeups.forget(name)
            self._notices.pop(name, None)

    def hold(self, names: Iterable[TopicPartition]) -> None:
        """Neither fetch nor deliver these; their positions stay."""
        self.positions.hold(self._present(names))

    def let_go(self, names: Iterable[TopicPartition]) -> None:
        """End `hold`: fetch and deliver these."""
        wanted = self._present(names)
        self.positions.let_go(wanted)
        for name in wanted:
            self.wake(self.positions[name].broker)

    def _present(self, names: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [name for name in names if self.positions.find(name) is not None]

    def assigned(self, name: TopicPartition) -> Position[FetchedBatch]:
        """Raises InvalidRequest if the partition is not assigned."""
        self._scope.check()
        name = arguments.partition(name)
        state = self.positions.find(name)
        if state is None:
            raise InvalidRequest(f"{name} is not assigned to this consumer")
        return state

    def seek(self, name: TopicPartition, offset: int) -> None:
        self.seek_to(name, LogPosition(offset))

    def seek_to(self, name: TopicPartition, at: LogPosition) -> None:
        self.positions.seek_to(name, at)
        self._wakeups.forget(name)
        self.wake(self.positions[name].broker)

    def search(self, names: Iterable[TopicPartition], reset: Reset) -> None:
        """Forget these positions and search for others."""
        self.carry_out([effect for name in names for effect in self.positions.unknown(name, reset)])

    def block(self, name: TopicPartition, error: StrandlineError) -> None:
        """The next batch cannot be delivered: the partition stays at it until its position is moved."""
        self.positions.block(name)
        self._wakeups.note(name, error)

    def take(self, name: TopicPartition) -> FetchedBatch | None:
        """The next arrived batch of a partition, which makes room for others; None if none has arrived, or it
        is not read. It counts as processed."""
        state = self.positions.find(name)
        if state is None or not state.buffered:
            return None
        batch = self.positions.take(state, state.buffered[0].size)
        state.processed = state.position = batch.next_offset
        self.wake(state.broker)
        return batch

    def pause(self, name: TopicPartition) -> None:
        """Deliver nothing until `resume`, and drop the error of a batch that cannot be delivered."""
        if self.positions[name].blocked:
            self._wakeups.forget(name)
        self.positions.pause(name)

    # --- what the core decides ---------------------------------------------------------------

    def carry_out(self, effects: list[Effect]) -> None:
        searches: list[FindPosition] = []
        for effect in effects:
            match effect:
                case Arrived():
                    self._arrived(effect)
                case FindPosition():
                    self._wakeups.forget(effect.name)
                    searches.append(effect)
                case DoubtLeader(name, error):
                    self._cluster.follow(name, error)
                case DelayFetch(name, attempt):
                    self._loop.call_later(backoff_s(self._settings, attempt), self._backed_off, name, attempt)
                case Waits():
                    self._waits_for_leader(effect)
                case Refused(name, error):
                    self._wakeups.note(name, error)
                case MadeAnew(name, before, now):
                    self._wakeups.forget(name)
                    logger.warning(
                        "%s was made anew: topic id %s instead of %s; it is read from its first record",
                        name, now, before,
                    )  # fmt: skip
                case Cut():
                    self._was_cut(effect)
        if searches:
            self._scope.spawn(self.finder.find(searches), "positions")

    def _waits_for_leader(self, waits: Waits) -> None:
        notice = self._notices.setdefault(waits.name, Notice(self._clock))
        if waits.attempt == 1:
            notice.over()  # the fetch before had an answer
        notice.log(f"{waits.name} cannot be read yet", waits.error)

    def _topic_learned(self, topic: TopicMetadata) -> None:
        effects = self.positions.learned(topic.name, topic.topic_id)
        self.carry_out(effects)
        for before in {effect.before for effect in effects if isinstance(effect, MadeAnew)}:
            self.on_recreated(topic.name, before, topic.topic_id)

    def _was_cut(self, cut: Cut) -> None:
        what = (
            f"{cut.name}: the log has lost offsets {cut.first} to {cut.end - 1}, which were read before, in "
            f"an election with a loss; it goes on at {cut.first}, behind epoch {cut.epoch}"
        )
        logger.warning("%s", what)
        if self._settings.never_resets:
            self.block(cut.name, OffsetOutOfRange(f"{what}, and offset_reset is none: seek"))

    def _arrived(self, arrived: Arrived) -> None:
        name = arrived.name
        batches, damaged = batches_of(name, arrived.offset, arrived.records, arrived.aborted)
        if damaged is not None and not batches:
            self.carry_out(self.positions.refuse(name, damaged))
            return
        for batch in batches:
            epoch = batch.header.leader_epoch
            self.positions.buffer(name, batch, batch.size, batch.next_offset, epoch=epoch)
        self._wakeups.forget(name)
        self._wakeups.arrived()

    def _found(self, name: TopicPartition) -> None:
        """A position was found."""
        self._wakeups.forget(name)
        self._wakeups.arrived()
        self._leader_changed(name)

    def _backed_off(self, name: TopicPartition, attempt: int) -> None:
        self.positions.backed_off(name, attempt)
        state = self.positions.find(name)
        if state is not None:
            self.wake(state.broker)

    def wake(self, broker: int) -> None:
        """There may be a partition to fetch from this broker."""
        if broker == NO_BROKER:
            return
        fetcher = self._fetchers.get(broker)
        if fetcher is None:
            fetcher = self._fetchers[broker] = Fetcher(
                broker,
                cluster=self._cluster,
                positions=self.positions,
                carry_out=self.carry_out,
                measures=self.measures,
                settings=self._settings,
                clock=self._clock,
            )
            self._scope.spawn(fetcher.run(), f"broker {broker}")
        fetcher.wake()

    def _leader_changed(self, name: TopicPartition) -> None:
        leader = self._cluster.leader(name)
        if leader is None or self.positions.find(name) is None:
            return
        self.positions.led(name, leader.broker, leader.epoch)
        if leader.broker == NO_BROKER:
            self._cluster.doubt(name)
        else:
            self.wake(leader.broker)

    async def _locate(self, topic: str, partitions_min: int) -> None:
        """Request a topic's leaders, for partitions whose positions are known without a lookup. Retriable
        errors are noted and retried."""
        noted: StrandlineError | None = None
        while names := [state.name for state in self.positions if state.name.topic == topic]:
            try:
                metadata = await self._cluster.topic(topic, partitions_min=partitions_min)
            except StrandlineError as error:
                noted = error
                for name in names:
                    self._failed(name, error)
                if not error.retriable:
                    return
                await self._clock.sleep(LOOKUP_PAUSE_S)
                continue
            for name in [state.name for state in self.positions if state.name.topic == topic]:
                if noted is not None and self._wakeups.error(name) is noted:
                    self._wakeups.forget(name)
                if name.partition >= len(metadata.partitions):
                    self._failed(name, UnknownTopicOrPartition(f"{topic} has no partition {name.partition}"))
                self._leader_changed(name)
            return

    def _failed(self, name: TopicPartition, error: StrandlineError) -> None:
        """The partition cannot be read."""
        if self._left_to_the_group(error):
            logger.info("%s cannot be read: %s", name, error)
        else:
            self._wakeups.note(name, error)

    def _left_to_the_group(self, error: StrandlineError) -> bool:
        """True for a deleted topic of a group, which will revoke its partitions: it is no error here."""
        return self.subscribed and isinstance(error, UnknownTopicOrPartition)
