"""Where the leaders of partitions are, as far as this broker knows without asking them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import NamedTuple

from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.replicas.manager import ReplicaManager
from strandline.errors import StrandlineError
from strandline.ids import BrokerId, TopicPartition


class Places(NamedTuple):
    """Partitions that are in neither have no leader now."""

    leaders: Mapping[TopicPartition, BrokerId]
    gone: Set[TopicPartition]
    """These do not exist: the look began after the question."""


class PartitionPlaces:
    """A replica of a partition knows its leader at once; ZooKeeper is asked for the others."""

    def __init__(self, manager: ReplicaManager, view: ClusterView) -> None:
        self._manager = manager
        self._view = view

    async def of(self, names: Collection[TopicPartition]) -> Places:
        leaders = dict[TopicPartition, BrokerId]()
        for name in names:
            replica = self._manager.find(name)
            if replica is not None and replica.leader in self._manager.live:
                leaders[name] = replica.leader
        if len(leaders) < len(names):
            leaders |= await self._read([name for name in names if name not in leaders])
        doubtful = [name for name in names if name not in leaders]
        gone = (await self._view.topics_now(doubtful)).missing(doubtful) if doubtful else frozenset()
        return Places(leaders, gone)

    async def _read(self, names: Collection[TopicPartition]) -> dict[TopicPartition, BrokerId]:
        """The leaders that ZooKeeper shows, or showed at the last reading."""
        try:
            cluster, _ = await self._view.describe(sorted({name.topic for name in names}))
        except StrandlineError:
            return {}  # the next look will do
        wanted, found = set(names), dict[TopicPartition, BrokerId]()
        for topic in cluster.topics:
            for each in topic.partitions:
                name = TopicPartition(topic.name, each.partition)
                if name in wanted and each.leader in self._manager.live:
                    found[name] = BrokerId(each.leader)
        return found
