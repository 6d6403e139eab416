"""Where a run takes place: what its workloads, its faults and its judges share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from strandline.adapters.zookeeper import znodes
from strandline.ids import TRANSACTIONS_TOPIC, TopicPartition
from strandline.ports import NoNode
from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.simulation.engine.loop import ExceptionHandler
from strandline.simulation.engine.world import World
from strandline.simulation.engine.zookeeper.isr_history import IsrHistory
from strandline.simulation.engine.zookeeper.znode_tree import ZnodeTree

SYNCED: Final = {"flush.messages": "1"}
"""The config of a topic whose records are synced before they count."""


class Acknowledged(NamedTuple):
    """A record that a client just got acknowledged by acks=all."""

    name: TopicPartition
    offset: int
    min_insync: int
    synced: bool
    """Each record of its topic is synced before it counts."""


class CoordinatorStep(NamedTuple):
    """A client is about to send a request to its coordinator: of a transaction, or of a group."""

    key: str
    """The transactional id, or the group."""
    request: str
    decisive: bool
    """What is decided next, others depend on."""
    topic: str = TRANSACTIONS_TOPIC
    """What its coordinator writes to."""


class Stage:
    """The cluster, and when the faults have ended."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.faults_ended = asyncio.Event()
        """Set after the faults: then everything runs, and clients have to finish."""
        self.awaited = "the cluster does not answer"
        """After the faults: what the run waits for now."""
        self.isr_history = IsrHistory(cluster.world.zookeeper, cluster.isr_trail_events_max)
        self.faults_begun = 0
        self.unclean_topics: set[str] = set()
        """Topics that allow unclean elections: their logs may lose their ends with no disk at fault."""
        self.on_acknowledged: list[Callable[[Acknowledged], None]] = []
        """Judges that look at each acknowledgement."""
        self.on_coordinator_step: list[Callable[[CoordinatorStep], None]] = []
        """Faults that hit at a step of a transaction, or of a member of a group."""

    @property
    def world(self) -> World:
        return self.cluster.world

    @property
    def now_s(self) -> float:
        """Virtual seconds since the run began."""
        return self.world.loop.now_ns() / 1e9

    @property
    def power_losses(self) -> int:
        """How often a machine has lost its power."""
        return sum(machine.disk.power_losses for machine in self.world.machines)

    @property
    def disks_failed(self) -> bool:
        """A machine has lost its power, or its disk has reported errors."""
        return self.power_losses > 0 or self.disks_spoiled

    @property
    def disks_spoiled(self) -> bool:
        """A disk has reported errors."""
        return any(machine.disk.spoiled for machine in self.world.machines)

    @property
    def znodes(self) -> ZnodeTree:
        """As a ZooKeeper server has them that is in touch with the others."""
        servers = self.world.zookeeper.servers
        return next((server for server in servers if server.linked), servers[0]).tree

    def step(self, step: CoordinatorStep) -> None:
        for look in tuple(self.on_coordinator_step):
            look(step)

    def topics_being_deleted(self) -> list[str]:
        """Their deletion has begun, and is not complete."""
        try:
            return sorted(self.znodes.children(znodes.DELETE_TOPICS))
        except NoNode:
            return []  # no process of the cluster has reached ZooKeeper yet

    def client(self, name: str) -> SimulatedProcess:
        """A process for a client, on a machine of its own."""
        process = self.world.new_process(name, self.world.new_machine())
        process.life.on_exception = self._handler(name)
        return process

    def note_exceptions(self) -> None:
        """Count what callbacks of the world raise, those of judges among them, as defects."""
        self.world.loop.set_exception_handler(self._handler("the simulation"))

    def _handler(self, name: str) -> ExceptionHandler:
        """Only what callbacks raise counts: the garbage collector decides when an unread future is found."""

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if "handle" in context:
                self.world.defects.append(f"{name}: {context['message']}: {context.get('exception')!r}")
            loop.default_exception_handler(context)

        return handle

    def random(self, purpose: str) -> Random:
        """Lots for one purpose: they do not depend on how many were drawn for others."""
        return self.world.random(purpose)
