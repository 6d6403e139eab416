"""What the cluster is like right now, as ZooKeeper has it: who lives, who leads what."""

from __future__ import annotations

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.broker.coordinators.placement import partition_of
from strandline.ids import NO_BROKER, OFFSETS_TOPIC
from strandline.ports import NoNode
from strandline.simulation.engine.loop import Process
from strandline.simulation.engine.zookeeper.ensemble import Ensemble
from strandline.simulation.engine.zookeeper.znode_tree import ZnodeTree
from strandline.testing.errors import UnknownMember
from strandline.vocabulary.metadata import NEVER_LED, PartitionState


class ZnodesSeen:
    """Reads at the server that has applied most."""

    def __init__(self, zookeeper: Ensemble) -> None:
        self._zookeeper = zookeeper

    @property
    def _tree(self) -> ZnodeTree:
        return max(self._zookeeper.servers, key=lambda server: server.zxid).tree

    def brokers(self) -> list[int]:
        """The registered ones, in order."""
        return sorted(znodes.broker_ids(self._children(znodes.BROKER_IDS)))

    def session_of(self, broker: int) -> int | None:
        """The id of the ZooKeeper session of a registered broker."""
        return self._owner(znodes.broker(broker))

    def registered_process(self, broker: int) -> Process | None:
        """The process that registered as this broker, while its session lives."""
        return self._holder(self.session_of(broker))

    def active_process(self) -> Process | None:
        """The process that is the active controller, while its session lives."""
        return self._holder(self._owner(znodes.CONTROLLER))

    def controller(self) -> int | None:
        """The active controller."""
        try:
            return znodes.load_controller(self._tree.get(znodes.CONTROLLER).data).endpoint.id
        except NoNode:
            return None

    def topics(self) -> dict[str, int]:
        """Each topic and the number of its partitions; internal ones too."""
        sizes = {}
        for name in znodes.topic_names(self._children(znodes.TOPICS)):
            sizes[name] = znodes.load_topic(name, self._tree.get(znodes.topic(name)).data).partitions
        return sizes

    def state(self, topic: str, partition: int) -> PartitionState:
        """Raises UnknownMember."""
        self._check(topic, partition)
        try:
            data = self._tree.get(znodes.isr(topic, partition)).data
        except NoNode:
            return NEVER_LED
        return isr_znodes.load_isr(topic, partition, data)

    def replicas(self, topic: str, partition: int) -> list[int]:
        """The assigned brokers, the preferred leader first. Raises UnknownMember."""
        self._check(topic, partition)
        data = self._tree.get(znodes.replicas(topic, partition)).data
        return list(znodes.load_replicas(topic, partition, data))

    def coordinator(self, group: str) -> int | None:
        """The broker that coordinates a group; None if there is none now."""
        partitions = self.topics().get(OFFSETS_TOPIC, 0)
        if not partitions:
            return None
        leader = self.state(OFFSETS_TOPIC, partition_of(group, partitions)).leader
        return None if leader == NO_BROKER else leader

    def lagging(self) -> list[str]:
        """A line for each partition that has no leader or not all of its replicas in sync. A broker that has
        registered anew since it joined the ISR is not in sync (CORRECTNESS I6)."""
        lines = []
        lives = {broker: self._tree.get(znodes.broker(broker)).czxid for broker in self.brokers()}
        for topic, partitions in self.topics().items():
            for partition in range(partitions):
                state, replicas = self.state(topic, partition), self.replicas(topic, partition)
                in_sync = [each.broker for each in state.isr if lives.get(each.broker) == each.broker_epoch]
                if state.leader == NO_BROKER or set(in_sync) != set(replicas):
                    leader = "no leader" if state.leader == NO_BROKER else f"leader {state.leader}"
                    lines.append(f"{topic}-{partition}: {leader}, in sync {in_sync} of {replicas}")
        return lines

    def _owner(self, path: str) -> int | None:
        """The session of an ephemeral znode, if it exists."""
        try:
            return self._tree.get(path).ephemeral_owner
        except NoNode:
            return None

    def _holder(self, session: int | None) -> Process | None:
        return None if session is None else self._zookeeper.holder(session)

    def _children(self, path: str) -> list[str]:
        try:
            return self._tree.children(path)
        except NoNode:
            return []

    def _check(self, topic: str, partition: int) -> None:
        sizes = self.topics()
        if topic not in sizes:
            raise UnknownMember(f"there is no topic {topic!r}; the topics are {sorted(sizes)}")
        if not 0 <= partition < sizes[topic]:
            raise UnknownMember(f"{topic} has no partition {partition}: it has {sizes[topic]}")
