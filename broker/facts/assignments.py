"""Reads what ZooKeeper says of a partition's replicas: AR, and where it is going.

Which topics are under reassignment at all is listed once a round, so that a partition costs one read as
long as nothing moves.
"""

from __future__ import annotations

from collections.abc import Set

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import Fact, read_reassignment
from strandline.broker.core.replication.reassignment import Assignment
from strandline.ids import PartitionKey
from strandline.ports import Coordination, NoNode
from strandline.vocabulary.metadata import Reassignment


class Assignments:
    """One round of reading. Take a new one for each: `listed` says what was under way when it began."""

    def __init__(self, session: Coordination, moving: Set[str]) -> None:
        self._session = session
        self._moving = moving

    @classmethod
    async def listed(cls, session: Coordination) -> Assignments:
        """Raises ConnectionLost."""
        try:
            return cls(session, frozenset(await session.children(znodes.REASSIGNED)))
        except NoNode:
            return cls(session, frozenset())

    async def read(self, topic: str, key: PartitionKey) -> Assignment:
        """Raises NoNode if the partition is gone, ValueError, ConnectionLost.

        The reassignment is read first: one that begins or ends in between is not told apart from the AR
        that goes with it, and whoever writes by both compares both versions.
        """
        moving = await self._reassignment(topic, key) if topic in self._moving else None
        node = await self._session.get(znodes.replicas(topic, key.partition))
        replicas = znodes.load_replicas(topic, key.partition, node.data)
        if moving is None:
            return Assignment(replicas, node.version)
        return Assignment(replicas, node.version, *moving)

    async def _reassignment(self, topic: str, key: PartitionKey) -> Fact[Reassignment] | None:
        found = await read_reassignment(self._session, topic, key.partition)
        if found is None or found.value.topic_id != key.topic_id:  # of an earlier topic of this name
            return None
        return found
