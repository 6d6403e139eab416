"""The states of a cluster during a run: leaders and in-sync replicas as ZooKeeper has them, and watermarks as
the replicas do.

Looking changes nothing, so the run is the one that failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.auditing.cluster import Observation
from strandline.broker.replicas.replica import Replica
from strandline.errors import StrandlineError
from strandline.ids import INTERNAL_PREFIX
from strandline.ports import NoNode
from strandline.records.decode import decode_lazily
from strandline.simulation.engine.zookeeper.znode_tree import ZnodeTree
from strandline_lab.simulation.stage import Stage

LOOK_EVERY_MS: Final = 50
"""Virtual time between two looks, at least."""
READ_BYTES: Final = 1 << 20


class ClusterStates:
    """Give `watch` to `run`; afterwards it has what it saw."""

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        """Of all topics but internal ones. Their times are virtual milliseconds since the run began."""
        self._stage: Stage
        self._next_ms = 0

    def watch(self, stage: Stage) -> None:
        """Begin to look."""
        self._stage = stage
        stage.world.trace.on_event.append(self._look)

    @property
    def names(self) -> Mapping[str, str]:
        """The names of processes by the addresses of their machines, as faults may mention them."""
        cluster, world = self._stage.cluster, self._stage.world
        servers = enumerate(world.zookeeper.servers)
        return {
            **{process.machine.host: process.name for process in cluster.brokers},
            **{process.machine.host: process.name for process in cluster.controllers},
            **{server.process.host: f"zookeeper {number}" for number, server in servers},
        }

    def recorded(self, topic: str, records_max: int) -> Iterator[dict[str, Any]]:
        """The committed records of an internal topic as JSON objects, once the run is over, partition by
        partition, each from the replica with the highest watermark that can be read."""
        try:
            numbers = znodes.numbers(self._tree().children(znodes.topic(topic)))
        except NoNode:
            return
        values = (value for number in numbers for value in self._values(topic, number))
        for value in islice(values, records_max):
            yield json.loads(value)

    def _values(self, topic: str, number: int) -> list[bytes]:
        replicas: list[Replica] = []
        for running in self._stage.cluster.running.values():
            if running.manager is not None:
                with suppress(StrandlineError):
                    replicas.append(running.manager.named(topic, number))
        for replica in sorted(replicas, key=lambda each: each.high_watermark, reverse=True):
            with suppress(StrandlineError, OSError):
                return _committed(replica)
        return []

    def _look(self) -> None:
        at_ms = int(self._stage.now_s * 1000)
        if at_ms >= self._next_ms:
            self._next_ms = at_ms + LOOK_EVERY_MS
            self.observations += self._seen(at_ms)

    def _seen(self, at_ms: int) -> Iterator[Observation]:
        """Of each partition that has a leader or had one."""
        tree = self._tree()
        try:
            topics = tree.children(znodes.TOPICS)
        except NoNode:
            return  # no process of the cluster has started yet
        for topic in topics:
            if topic.startswith(INTERNAL_PREFIX):
                continue
            for number in znodes.numbers(tree.children(znodes.topic(topic))):
                try:
                    state = isr_znodes.load_isr(topic, number, tree.get(znodes.isr(topic, number)).data)
                except NoNode:
                    continue
                replica = self._replica(state.leader, topic, number)
                yield Observation(
                    at_ms,
                    "simulation",
                    topic,
                    number,
                    state.leader,
                    state.leader_epoch,
                    tuple(member.broker for member in state.isr),
                    None if replica is None else replica.high_watermark,
                    None if replica is None else replica.log.log_end_offset,
                )

    def _tree(self) -> ZnodeTree:
        """The newest tree of a ZooKeeper server."""
        return max(self._stage.world.zookeeper.servers, key=lambda server: server.zxid).tree

    def _replica(self, broker: int, topic: str, number: int) -> Replica | None:
        """The replica of a broker that runs."""
        cluster = self._stage.cluster
        index = broker - cluster.first_id
        running = cluster.running.get(index)
        if running is None or running.manager is None or not cluster.brokers[index].life.alive:
            return None
        try:
            return running.manager.named(topic, number)
        except StrandlineError:
            return None


def _committed(replica: Replica) -> list[bytes]:
    """The values of all committed records of a log. Raises StrandlineError, OSError."""
    found: list[bytes] = []
    offset = replica.log.log_start_offset
    while read := replica.read(offset, READ_BYTES):
        for header, records in decode_lazily(read):
            found += [each.value for each in records if each.value is not None]
            offset = header.next_offset
    return found
