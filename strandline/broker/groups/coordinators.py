"""The partitions of `__consumer_offsets` that this broker leads, from election to end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Set
from contextlib import suppress
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.broker.coordinators.led_partitions import LedPartitions
from strandline.broker.coordinators.partition import Surroundings
from strandline.broker.core.consumer_groups.topics import Topic
from strandline.broker.core.groups.coordinator import Coordinator
from strandline.broker.core.groups.effects import GroupEvent
from strandline.broker.core.groups.limits import GroupLimits
from strandline.broker.core.groups.state.offsets import SeenTopics
from strandline.broker.groups.partition import GROUPS, GroupPartition
from strandline.broker.metadata.existing_partitions import TopicsNow
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.config.services.broker import BrokerSettings
from strandline.errors import CoordinationError
from strandline.ids import INTERNAL_PREFIX, TopicPartition
from strandline.ports import Coordination, NoNode
from strandline.vocabulary.configs.groups import KnownGroupConfigs
from strandline.vocabulary.parsing.typed_json import INT32_MAX
from strandline.vocabulary.transactions import Marker

TOPICS_LOOKED_AT_MAX: Final = 500
"""Topics of one partition of the offsets topic that are looked at in one round; the others have their turn in
the next ones."""


def subscribed_now(names: Iterable[str], now: TopicsNow) -> dict[str, Topic | None]:
    """Those of these topics that a look found, or found to be none."""
    found: dict[str, Topic | None] = {}
    for name in names:
        if now.has_no(name):
            found[name] = None
        elif name in now.found and now.found[name].topic_id:
            found[name] = Topic(now.found[name].topic_id, now.found[name].partitions)
    return found


class Coordinators(LedPartitions[GroupPartition]):
    def __init__(
        self,
        manager: ReplicaManager,
        settings: BrokerSettings,
        publish: Callable[[GroupEvent], None],
        holds_lease: Callable[[], bool],
        topics_now: Callable[[Iterable[TopicPartition]], Awaitable[TopicsNow]],
        configs: KnownGroupConfigs,
    ) -> None:
        super().__init__(
            GROUPS,
            manager,
            holds_lease,
            append_timeout_ms=settings.group_append_timeout_ms,
            appends_max=settings.commit_queue_entries_max,
        )
        self._reconcile_s = settings.reconcile_ms / 1000
        self._limits = GroupLimits.of(settings)
        self._publish = publish
        self._configs = configs
        self._topics_now = topics_now
        self._ids: Set[str] = frozenset()
        self.topic_names: tuple[str, ...] = ()
        """All topics but internal ones as they were last read, by name. It is the same tuple until they
        change."""

    def _make(self, leadership: Leadership, around: Surroundings) -> GroupPartition:
        return GroupPartition(leadership, Coordinator(self._limits, self._configs.of), around, self._publish)

    async def run(self) -> None:
        """Runs the partitions, and follows what happens to topics, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_topics())
            await super().run()

    def marked(self, leadership: Leadership, marker: Marker) -> None:
        """A marker in the log of this leadership is committed: see `GroupPartition.marked`."""
        partition = self.get(leadership.replica.name.partition)
        if partition is not None and partition.leadership is leadership:
            partition.marked(marker.producer.producer_id, commit=marker.commit)

    async def _follow_topics(self) -> None:
        """Remove the offsets of topics that are deleted, or were made anew: in another topic of the same name
        they would mean nothing.

        Two successive readings of all names and ids are compared, so a topic that never existed loses no
        offsets. Only topics with offsets of another incarnation, or of an unknown one, are looked at singly.
        """
        there: set[str] = set()
        while True:
            await self._clock.sleep(self._reconcile_s)
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
            self.take_names(found)
            if gone:
                for partition in self:
                    partition.follow_topics(SeenTopics(marks.get(partition, 0), gone))
            for partition in self:
                await self._follow_ids(partition, ids)
            for partition in self:
                await self._follow_subscriptions(partition)

    def take_names(self, found: Iterable[str]) -> None:
        """All topics as they are now."""
        names = tuple(sorted(name for name in found if not name.startswith(INTERNAL_PREFIX)))
        self.topic_names = self.topic_names if self.topic_names == names else names

    async def _incarnations(self, session: Coordination) -> Set[str]:
        """The ids of all topics; the same set as before if none came or went."""
        with suppress(NoNode):
            ids = frozenset(await session.children(znodes.TOPIC_IDS))
            self._ids = self._ids if self._ids == ids else ids
        return self._ids

    async def _follow_subscriptions(self, partition: GroupPartition) -> None:
        """Looks whether topics were made or have grown that members of the consumer protocol subscribe to."""
        names = partition.subscribed(TOPICS_LOOKED_AT_MAX)
        # No partition has that number, so each topic is read again.
        now = await self._topics_now([TopicPartition(topic, INT32_MAX) for topic in names])
        partition.see_topics(subscribed_now(names, now))

    async def _follow_ids(self, partition: GroupPartition, ids: Set[str]) -> None:
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
