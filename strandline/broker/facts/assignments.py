"""Reads a partition's assignment from ZooKeeper: its AR, and its reassignment if there is one.

The topics under reassignment are listed once a round, so a partition costs one read while no replica moves.
"""

from __future__ import annotations

from collections.abc import Set

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import Fact, Reader, read_reassignment
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.ids import PartitionKey
from strandline.ports import NoNode
from strandline.vocabulary.metadata import Reassignment


class Assignments:
    """The assignments read in one round. Make a new one for each round with `listed`, which lists the
    reassignments at its start."""

    def __init__(self, session: Reader, moving: Set[str]) -> None:
        self._session = session
        self._moving = moving

    @classmethod
    async def listed(cls, session: Reader) -> Assignments:
        """Lists the topics under reassignment. Raises ConnectionLost."""
        try:
            return cls(session, frozenset(await session.children(znodes.REASSIGNED)))
        except NoNode:
            return cls(session, frozenset())

    async def read(self, topic: str, key: PartitionKey) -> PartitionAssignment:
        """Reads one assignment. Raises NoNode if the partition is gone, ValueError, ConnectionLost.

        The reassignment is read first. If one begins or ends in between, the result may combine it with the
        other's AR; a writer that depends on both compares both versions.
        """
        moving = await self._reassignment(topic, key) if topic in self._moving else None
        node = await self._session.get(znodes.replicas(topic, key.partition))
        replicas = znodes.load_replicas(topic, key.partition, node.data)
        if moving is None:
            return PartitionAssignment(replicas, node.version)
        return PartitionAssignment(replicas, node.version, *moving)

    async def _reassignment(self, topic: str, key: PartitionKey) -> Fact[Reassignment] | None:
        found = await read_reassignment(self._session, topic, key.partition)
        if found is None or found.value.topic_id != key.topic_id:  # of an earlier topic with this name
            return None
        return found
