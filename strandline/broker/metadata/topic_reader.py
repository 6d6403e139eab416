"""Reads one topic from ZooKeeper: its node, and its partitions with the lives of their leaders.

The leader of record is named only while its broker is registered in the life in which it was elected. Without
that registration the leadership has ended, even if `isr` still names it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.adapters.zookeeper.unreadable import UnreadableLog
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId
from strandline.ports import NoNode, Znode
from strandline.tasks import pipelined
from strandline.vocabulary.metadata import NEVER_LED, PartitionMetadata, PartitionState, Registration

Live = Mapping[BrokerId, Registration]
Lives = dict[int, BrokerEpoch]
"""For each partition the life in which its leader was elected; no entry for a partition without a leader."""


class TopicReader:
    """Reads through `get`, which raises NoNode, ConnectionLost or SessionEnded; so do the calls here.

    `live` returns the registrations known here: a new mapping after each change.
    """

    def __init__(self, get: Callable[[str], Awaitable[Znode]], live: Callable[[], Live]) -> None:
        self._get = get
        self._live = live
        self._unreadable = UnreadableLog()

    async def node(self, name: str) -> znodes.TopicNode:
        """The topic's own znode. Raises UnreadableZnode too."""
        return znodes.load_topic(name, await self._data(znodes.topic(name)))

    async def partitions(
        self, name: str, numbers: Sequence[int], assigned: Mapping[int, tuple[int, ...]]
    ) -> tuple[list[PartitionMetadata], Lives]:
        """Reads these partitions; AR of those only that have none in `assigned`, or an ISR beyond it."""

        async def read(partition: int) -> tuple[PartitionMetadata, PartitionState]:
            """Reads one partition. An unreadable one gets no leader, so that the topic's other partitions
            still work."""
            replicas = assigned.get(partition) or await self._assigned(name, partition)
            state = self._state(name, partition, await self._data(znodes.isr(name, partition)))
            if partition in assigned and not set(replicas).issuperset(state.isr_ids):
                replicas = await self._assigned(name, partition)
            if not replicas:
                state = NEVER_LED
            metadata = PartitionMetadata(partition, state.leader, state.leader_epoch, replicas, state.isr_ids)
            return metadata, state

        found = await pipelined(read, numbers, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        registered = await self._lives_of(state for _, state in found)
        partitions: list[PartitionMetadata] = []
        lives: Lives = {}
        for metadata, state in found:
            life = _life_of_leader(state)
            if life is not None and registered.get(state.leader) == life:
                partitions.append(metadata)
                lives[metadata.partition] = life
            else:
                partitions.append(metadata.without_leader())
        return partitions, lives

    async def _assigned(self, name: str, partition: int) -> tuple[int, ...]:
        """AR; empty if it is unreadable."""
        try:
            return znodes.load_replicas(name, partition, await self._data(znodes.replicas(name, partition)))
        except znodes.UnreadableZnode as error:
            self._unreadable.report(error)
            return ()

    def _state(self, name: str, partition: int, record: bytes) -> PartitionState:
        try:
            return isr_znodes.load_isr(name, partition, record)
        except znodes.UnreadableZnode as error:
            self._unreadable.report(error)
            return NEVER_LED

    async def _lives_of(self, states: Iterable[PartitionState]) -> dict[BrokerId, BrokerEpoch | None]:
        """The life in which each leader is registered. A leader that this broker does not know to be alive
        may have registered recently. So ZooKeeper is asked after `isr` was read, and its answer is no older
        than that."""
        live = self._live()
        lives: dict[BrokerId, BrokerEpoch | None] = {}
        unknown: set[BrokerId] = set()
        for state in states:
            registration = live.get(state.leader)
            if registration is not None and registration.epoch == _life_of_leader(state):
                lives[state.leader] = registration.epoch
            elif state.leader != NO_BROKER:
                unknown.add(state.leader)
        asked = sorted(unknown)
        found = await pipelined(self._life_of, asked, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        return lives | dict(zip(asked, found, strict=True))

    async def _life_of(self, broker: BrokerId) -> BrokerEpoch | None:
        """The life in which a broker is registered now; None if it is not."""
        try:
            node = await self._get(znodes.broker(broker))
        except NoNode:
            return None
        return BrokerEpoch(node.czxid)

    async def _data(self, path: str) -> bytes:
        return (await self._get(path)).data


def _life_of_leader(state: PartitionState) -> BrokerEpoch | None:
    """The life in which the leader was elected; the leader is a member of the ISR."""
    return next((member.broker_epoch for member in state.isr if member.broker == state.leader), None)
