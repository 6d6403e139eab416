"""The partitions of `__consumer_offsets` that this broker leads, from election to end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Set
from contextlib import suppress
from functools import partial
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.broker.core.groups.coordinator import Coordinator
from strandline.broker.core.groups.effects import GroupEvent
from strandline.broker.core.groups.limits import GroupLimits
from strandline.broker.core.groups.state.offsets import SeenTopics
from strandline.broker.groups.coordinator_partition import CoordinatorPartition
from strandline.broker.metadata.existing_partitions import TopicsNow
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.config.services.broker import BrokerSettings
from strandline.errors import CoordinationError
from strandline.ids import OFFSETS_TOPIC, TopicId, TopicPartition
from strandline.ports import Clock, Coordination, NoNode

TOPICS_LOOKED_AT_MAX: Final = 500
"""Topics of one partition of the offsets topic that are looked at in one round; the others have their turn in
the next ones."""


class Coordinators:
    """A `LeadershipWatcher`. `run` owns the tasks of all partitions."""

    def __init__(
        self,
        manager: ReplicaManager,
        settings: BrokerSettings,
        clock: Clock,
        publish: Callable[[GroupEvent], None],
        holds_lease: Callable[[], bool],
        topics_now: Callable[[Iterable[TopicPartition]], Awaitable[TopicsNow]],
    ) -> None:
        self._manager = manager
        self._settings = settings
        self._limits = GroupLimits.of(settings)
        self._clock = clock
        self._publish = publish
        self._holds_lease = holds_lease
        self._topics_now = topics_now
        self._ids: Set[str] = frozenset()
        self._partitions: dict[int, CoordinatorPartition] = {}
        self._new: deque[CoordinatorPartition] = deque()
        self._wake = asyncio.Event()
        self.topic_id: TopicId | None = None
        """The incarnation of the topic that was last led here."""

    def __iter__(self) -> Iterator[CoordinatorPartition]:
        return iter(tuple(self._partitions.values()))

    def get(self, number: int) -> CoordinatorPartition | None:
        """The partition, if this broker leads it; it may still be loading."""
        return self._partitions.get(number)

    async def run(self) -> None:
        """Run the partitions until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_topics())
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._new:
                    tasks.create_task(self._new.popleft().run())

    async def _follow_topics(self) -> None:
        """Remove the offsets of topics that are deleted, or were made anew: in another topic of the same name
        they would mean nothing.

        Two successive readings of all names and ids are compared, so a topic that never existed loses no
        offsets. Only topics with offsets of another incarnation, or of an unknown one, are looked at singly.
        """
        there: set[str] = set()
        while True:
            await self._clock.sleep(self._settings.reconcile_ms / 1000)
            session = self._manager.session
            if session is None:
                continue
            marks = {partition: partition.mark for partition in self}
            try:
                await session.coordination.sync(znodes.TOPICS)
                found = set(await session.coordination.children(znodes.TOPICS))
                ids = await self._incarnations(session.coordination)
            except CoordinationError:
                continue  # the next reading will do
            gone, there = there - found, found
            if gone:
                for partition in self:
                    partition.follow_topics(SeenTopics(marks.get(partition, 0), gone))
            for partition in self:
                await self._follow_ids(partition, ids)

    async def _incarnations(self, session: Coordination) -> Set[str]:
        """The ids of all topics; the same set as before if none came or went."""
        with suppress(NoNode):
            ids = frozenset(await session.children(znodes.TOPIC_IDS))
            self._ids = self._ids if self._ids == ids else ids
        return self._ids

    async def _follow_ids(self, partition: CoordinatorPartition, ids: Set[str]) -> None:
        """Compares the partition's offsets with the topics as they are."""
        if not partition.active or partition.followed is ids:
            return
        mark, doubtful = partition.mark, sorted(partition.topics(without=ids))
        looked_at = doubtful[:TOPICS_LOOKED_AT_MAX]
        now = await self._topics_now([TopicPartition(topic, 0) for topic in looked_at])
        seen = {topic: now.id_of(topic) for topic in looked_at if topic in now.looked}
        partition.follow_topics(SeenTopics(mark, ids=seen))
        if len(seen) == len(doubtful):
            partition.followed = ids

    def begun(self, leadership: Leadership) -> None:
        replica = leadership.replica
        if replica.name.topic != OFFSETS_TOPIC:
            return
        partition = CoordinatorPartition(
            leadership,
            Coordinator(self._limits),
            settings=self._settings,
            clock=self._clock,
            publish=self._publish,
            hint=partial(self._manager.hint, replica),
            holds_lease=self._holds_lease,
            on_storage_failed=partial(leadership.step_down, None),
            expiry_ms=self._manager.retention.now_ms,
        )
        self._end(partition.number)
        self.topic_id = replica.key.topic_id
        self._partitions[partition.number] = partition
        self._new.append(partition)
        self._wake.set()

    def ended(self, leadership: Leadership) -> None:
        partition = self._partitions.get(leadership.replica.name.partition)
        if partition is not None and partition.leadership is leadership:
            self._end(partition.number)

    def _end(self, number: int) -> None:
        partition = self._partitions.pop(number, None)
        if partition is not None:
            partition.end()
