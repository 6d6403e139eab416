"""Handovers of one broker against a ZooKeeper in memory: what their tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import drain_znodes, isr_znodes, queue_znodes
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.broker.core.replication.produce_ticket import ProduceOutcome
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.election.balancing import Balancing
from strandline.broker.election.handover import Handover
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.replica import Replica
from strandline.ids import (
    BrokerId,
    PartitionId,
    PartitionKey,
    TopicPartition,
)
from strandline.ports import Create, Delete, Operation, SetData, Znode
from strandline.vocabulary.metadata import Drain, PartitionState, Registration
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import ASSIGNED, KEY, LIVE, NAME, batch
from tests.broker.support.seat import ME, Seat, led_by, seated

FIRST, THIRD = BrokerId(1), BrokerId(3)
QUICK: dict[str, Any] = {"handover_ms": 200, "preferred_leader_check_ms": 60_000}


@dataclass
class HandoverBench:
    """Broker 2 leads, and may give away."""

    seat: Seat
    handover: Handover
    balancing: Balancing
    outcomes: list[ProduceOutcome] = field(default_factory=list)

    # --- what broker 2 does ----------------------------------------------------------------------

    def lead(
        self, number: int = 0, *, epoch: int = 5, fetching: Sequence[BrokerId] = (FIRST, THIRD)
    ) -> Leadership:
        """Lead this partition of the topic; those that fetch have everything."""
        seat, manager = self.seat, self.seat.manager
        key = PartitionKey(KEY.topic_id, PartitionId(number))
        replica = manager.create(TopicPartition(NAME.topic, number), key, TopicConfig())
        manager.reconfigure(replica, PartitionAssignment(ASSIGNED, version=0), TopicConfig())
        state = led_by(ME, 1, 2, 3, epoch=epoch)
        self._make(znodes.isr(NAME.topic, number))
        self._make(znodes.leader(NAME.topic, number))
        if number:
            path = znodes.replicas(NAME.topic, number)
            self.seat.tree.apply(Create(path, znodes.dump_replicas(ASSIGNED)), owner=0)
        written = seat.tree.apply(
            SetData(znodes.isr(NAME.topic, number), isr_znodes.dump_isr(state)), owner=0
        )
        assert isinstance(written, int)
        manager.lead(replica, state, written)
        assert replica.leadership is not None
        self.fetched(replica.leadership, *fetching)
        return replica.leadership

    def replica(self, leadership: Leadership) -> Replica:
        """The replica that is led."""
        found = self.seat.manager.get(leadership.replica.key)
        assert found is not None
        return found

    def fetched(self, leadership: Leadership, *followers: BrokerId) -> None:
        """They have all there is."""
        end = leadership.replica.log.log_end_offset
        for follower in followers:
            leadership.fetched(follower, LIVE[follower].epoch, end, subscription=1)
        leadership.turn()

    def produce(self, leadership: Leadership) -> None:
        leadership.produce(batch("v"), acks=-1, timeout_ms=60_000, done=self.outcomes.append)

    @property
    def multis(self) -> list[Sequence[Operation]]:
        """The writes, or tries, that give leaderships away."""
        return [m for m in self.seat.coordination.multis if any(isinstance(o, Delete) for o in m)]

    # --- what ZooKeeper has ----------------------------------------------------------------------

    def _make(self, path: str) -> None:
        """With its parents, where they are missing."""
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            prefix = "/" + "/".join(parts[:depth])
            if prefix not in self.seat.tree.nodes:
                self.seat.tree.apply(Create(prefix), owner=0)

    def register(self, registration: Registration, *, version: int = 0) -> None:
        path = znodes.broker(registration.id)
        data = znodes.dump_registration(registration)
        self.seat.tree.nodes[path] = Znode(data, version, registration.epoch, registration.epoch, 1)
        self._make(znodes.elections(registration.id))

    def drain(self, broker: BrokerId, drain: Drain) -> None:
        self._make(znodes.drain(broker))
        self.seat.tree.apply(SetData(znodes.drain(broker), drain_znodes.dump_drain(drain)), owner=0)

    def leader(self, number: int = 0) -> BrokerId:
        """The leader of record."""
        return self.record(number).leader

    def record(self, number: int = 0) -> PartitionState:
        node = self.seat.tree.nodes[znodes.isr(NAME.topic, number)]
        return isr_znodes.load_isr(NAME.topic, number, node.data)

    def notices(self, broker: BrokerId) -> list[list[ElectionNotice]]:
        """The notices to this broker, by znode."""
        path = znodes.elections(broker)
        return [
            queue_znodes.load_notices(self.seat.tree.nodes[f"{path}/{child}"].data)
            for child in sorted(self.seat.tree.children(path))
        ]

    def named(self, broker: BrokerId) -> set[int]:
        """The partitions that the notices name for this broker."""
        return {notice.key.partition for notices in self.notices(broker) for notice in notices}


@asynccontextmanager
async def handover_bench(folder: Path) -> AsyncIterator[HandoverBench]:
    """Brokers 1, 2 and 3 are registered."""
    async with seated(folder, **QUICK) as seat:
        handover = Handover(seat.context)
        bench = HandoverBench(seat, handover, Balancing(seat.context, handover, seat))
        for registration in LIVE.values():
            bench.register(registration)
        yield bench
