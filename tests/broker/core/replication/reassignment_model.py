"""The parts of a random reassignment: real leaders, a ZooKeeper in memory, brokers with logs."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from strandline.broker.core.replication.effects import (
    Acknowledge,
    CloseReplicas,
    CompleteReassignment,
    Effect,
    WriteIsr,
)
from strandline.broker.core.replication.leader_partition import LeaderPartition
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.ids import BrokerEpoch, BrokerId, Offset
from strandline.vocabulary.metadata import Endpoint, PartitionState, Registration
from strandline.vocabulary.state_changes import Command

BROKERS = tuple(BrokerId(b) for b in (1, 2, 3, 4, 5))
KEEP_IN_SYNC_S = 1.0
CLOSE_S = 5.0


def min_insync(assignment: PartitionAssignment) -> int:
    return 2 if assignment.replication_factor >= 3 else 1


class Request(NamedTuple):
    command: Command
    epoch: int
    by_leader: bool


@dataclass
class ZooKeeper:
    """The state of record; each write is atomic, and conditional on the versions that it was decided on."""

    state: PartitionState
    assignment: PartitionAssignment
    version: int = 0
    epoch: int = 1
    queues: dict[BrokerId, deque[Request]] = field(
        default_factory=lambda: {broker: deque() for broker in BROKERS}
    )

    def queue(
        self, command: Command, brokers: tuple[BrokerId, ...], epoch: int, *, by_leader: bool = True
    ) -> None:
        for broker in brokers:
            self.queues[broker].append(Request(command, epoch, by_leader))


class Leading:
    """One leadership. It decides at once, and carries out one effect at each call."""

    def __init__(self, broker: Broker, zookeeper: ZooKeeper, now: float) -> None:
        state = zookeeper.state
        self.broker = broker
        self.zookeeper = zookeeper
        self.epoch = state.leader_epoch
        self.assignment = zookeeper.assignment
        self.effects: deque[Effect[int]] = deque()
        self.over = False
        self.core: LeaderPartition[int] = LeaderPartition(
            me=broker.id,
            epoch=self.epoch,
            log_end_offset=Offset(len(broker.log)),
            high_watermark=Offset(min(broker.high_watermark, len(broker.log))),
            assignment=self.assignment,
            members=state.isr,
            version=zookeeper.version,
            live=broker.live(),
            min_insync=min_insync(self.assignment),
            keep_in_sync_s=KEEP_IN_SYNC_S,
            close_s=CLOSE_S,
            queue_entries_max=1_000,
            now=now,
        )

    def read_assignment(self, now: float) -> None:
        self.assignment = self.zookeeper.assignment
        self.core.assign(self.assignment, min_insync(self.assignment), now)

    def turn(self, now: float, acknowledged: set[int]) -> None:
        """Effects without a write happen at once."""
        if self.over:
            return
        for effect in self.core.step(now):
            match effect:
                case Acknowledge(tickets):
                    acknowledged.update(tickets)
                case WriteIsr() | CloseReplicas() | CompleteReassignment():
                    self.effects.append(effect)
                case _:
                    pass
        self.broker.high_watermark = self.core.high_watermark

    def carry_out(self, now: float, *, arrives: bool) -> None:
        """One effect reaches ZooKeeper, or is lost on the way; then the leader reads what is there."""
        effect = self.effects.popleft()
        zookeeper = self.zookeeper
        match effect:
            case WriteIsr(state=state, version=version):
                if arrives and version == zookeeper.version:
                    self._write(state)
            case CloseReplicas(brokers, decided_on):
                if arrives and decided_on == zookeeper.assignment:
                    zookeeper.queue(Command.CLOSE_REPLICA, brokers, self.epoch)
                else:
                    self.core.close_again()
            case CompleteReassignment(version=version, assignment=decided_on):
                if arrives and decided_on == zookeeper.assignment and version == zookeeper.version:
                    self._complete(effect)
            case _:
                raise AssertionError(effect)
        asked_to_write = not isinstance(effect, CloseReplicas)
        if asked_to_write and self.core.isr_read(zookeeper.state, zookeeper.version) is not None:
            self.end()
            return
        self.read_assignment(now)

    def _write(self, state: PartitionState) -> None:
        zookeeper = self.zookeeper
        assert set(state.isr_ids) <= {
            *zookeeper.assignment.replicas,
            *self.assignment.replicas,
            self.broker.id,
        }
        zookeeper.state, zookeeper.version = state, zookeeper.version + 1

    def _complete(self, effect: CompleteReassignment) -> None:
        zookeeper = self.zookeeper
        wanted = zookeeper.assignment.reassignment
        assert wanted is not None
        assert effect.assigned == wanted.target
        assert effect.state.isr, "an empty ISR"
        assert wanted.reverting or set(effect.state.isr_ids) == set(wanted.target), "E16"
        assert not self.core.queue or effect.successor == self.broker.id, "given up before it was drained"
        self._write(effect.state)
        zookeeper.assignment = PartitionAssignment(effect.assigned, zookeeper.assignment.version + 1)
        zookeeper.queue(Command.DELETE_REPLICA, effect.removed, self.epoch)
        others = tuple(broker for broker in effect.assigned if broker != self.broker.id)
        zookeeper.queue(Command.START_REPLICA, others, self.epoch)

    def end(self) -> None:
        self.over = True
        self.effects.clear()
        self.core.resign()


@dataclass
class Broker:
    """A log that survives the process, and the process."""

    id: BrokerId
    brokers: dict[BrokerId, Broker]
    has_replica: bool
    log: list[int] = field(default_factory=list)
    high_watermark: int = 0
    life: int = 0
    up: bool = True
    closed: bool = False
    epoch: int = -1
    """The highest that it knows."""
    subscription: int = 0
    follows: Leading | None = None
    leading: Leading | None = None
    deleted: Counter[int] = field(default_factory=Counter)

    def live(self) -> dict[BrokerId, Registration]:
        """The registered brokers."""
        return {
            broker.id: Registration(Endpoint(broker.id, "h", 1), broker.broker_epoch)
            for broker in self.brokers.values()
            if broker.up
        }

    @property
    def broker_epoch(self) -> BrokerEpoch:
        return BrokerEpoch(self.id * 1_000 + self.life)

    def stop_following(self, now: float) -> None:
        if self.follows is not None and not self.follows.over:
            self.follows.core.stopped_fetching(
                self.id, self.broker_epoch, now, subscription=self.subscription
            )
        self.follows = None

    def follow(self, leading: Leading, now: float) -> None:
        """Begin a subscription: what is not in the leader's log is cut."""
        self.stop_following(now)
        leader = leading.broker
        shared = 0
        while shared < min(len(self.log), len(leader.log)) and self.log[shared] == leader.log[shared]:
            shared += 1
        del self.log[shared:]
        self.high_watermark = min(self.high_watermark, shared)
        self.epoch = leading.epoch
        self.subscription += 1
        self.follows = leading
        self.report_position(now)

    def report_position(self, now: float) -> None:
        assert self.follows is not None
        self.follows.core.fetched(
            self.id, self.broker_epoch, Offset(len(self.log)), now, subscription=self.subscription
        )

    def stop(self, now: float) -> None:
        self.up = False
        self.stop_following(now)
        if self.leading is not None:
            self.leading.end()
            self.leading = None
