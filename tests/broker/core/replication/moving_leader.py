"""A leader whose partition moves, with a ZooKeeper that always answers: what tests of reassignments share."""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline.broker.core.replication.effects import (
    Acknowledge,
    AdvanceWatermark,
    CloseReplicas,
    CompleteReassignment,
    CutOff,
    StepDown,
    TimeOut,
    WriteIsr,
)
from strandline.broker.core.replication.leader_partition import LeaderPartition
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId
from strandline.vocabulary.metadata import Endpoint, IsrMember, PartitionState, Reassignment, Registration

KEEP_IN_SYNC_S = 1.0
CLOSE_S = 5.0
EPOCH = LeaderEpoch(7)
TOPIC_ID = TopicId("0" * 32)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in brokers)


def members(*brokers: int) -> tuple[IsrMember, ...]:
    return tuple(IsrMember(BrokerId(b), BrokerEpoch(b * 10)) for b in brokers)


def alive(*brokers: int, shutting_down: tuple[int, ...] = ()) -> dict[BrokerId, Registration]:
    return {
        BrokerId(b): Registration(Endpoint(b, "h", 1), BrokerEpoch(b * 10), b in shutting_down)
        for b in brokers
    }


def moving(
    original: tuple[int, ...], wanted: tuple[int, ...], *, reverting: bool = False
) -> PartitionAssignment:
    """As a controller writes it."""
    reassignment = Reassignment(TOPIC_ID, ids(*wanted), ids(*original), reverting=reverting)
    return PartitionAssignment(reassignment.grown, 1, reassignment, 0)


@dataclass
class Led:
    """A leadership whose ZooKeeper always answers, and what it wanted; a write waits while `held`."""

    assignment: PartitionAssignment
    leader: int = 1
    isr: tuple[int, ...] = (1, 2, 3)
    living: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    min_insync: int = 2
    now: float = 0.0
    held: bool = False
    silent: tuple[int, ...] = ()
    """Members that fetch nothing by themselves."""
    closed: list[tuple[BrokerId, ...]] = field(default_factory=list)
    writes: list[WriteIsr] = field(default_factory=list)
    completed: list[CompleteReassignment] = field(default_factory=list)
    cut_off: list[tuple[BrokerId, ...]] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.end = 10
        self.version = 0
        self.record = PartitionState(BrokerId(self.leader), EPOCH, members(*self.isr))
        self.core: LeaderPartition[str] = LeaderPartition(
            me=BrokerId(self.leader),
            epoch=EPOCH,
            log_end_offset=Offset(self.end),
            high_watermark=Offset(self.end),
            assignment=self.assignment,
            members=self.record.isr,
            version=0,
            live=alive(*self.living),
            min_insync=self.min_insync,
            keep_in_sync_s=KEEP_IN_SYNC_S,
            close_s=CLOSE_S,
            queue_entries_max=100,
            now=0.0,
        )
        self.fetch(*(broker for broker in self.isr if broker not in self.silent))

    @property
    def in_sync(self) -> tuple[BrokerId, ...]:
        return self.record.isr_ids

    def fetch(self, *brokers: int, end: int | None = None, subscription: int = 0) -> None:
        """These are as far as the leader, or as far as `end`."""
        for broker in brokers:
            if broker != self.leader:
                self.core.fetched(
                    BrokerId(broker), BrokerEpoch(broker * 10), Offset(self.end if end is None else end),
                    self.now, subscription=subscription,
                )  # fmt: skip
                self.turn()

    def stop_fetching(self, *brokers: int) -> None:
        for broker in brokers:
            self.core.stopped_fetching(BrokerId(broker), BrokerEpoch(broker * 10), self.now)
            self.turn()

    def produce(self, ticket: str) -> None:
        assert not self.core.handing_over
        self.end += 1
        self.core.queue.push(Offset(self.end), 1e9, ticket)
        self.core.appended(Offset(self.end), self.now)
        self.turn()

    def live_are(self, *brokers: int, shutting_down: tuple[int, ...] = ()) -> None:
        self.core.live_changed(alive(*brokers, shutting_down=shutting_down))
        self.turn()

    def assign(self, assignment: PartitionAssignment, min_insync: int | None = None) -> None:
        self.assignment = assignment
        self.core.assign(assignment, min_insync or self.min_insync, self.now)
        self.turn()

    def wait(self, seconds: float = KEEP_IN_SYNC_S) -> None:
        self.now += seconds
        self.turn()

    def turn(self) -> None:
        for effect in self.core.step(self.now):
            match effect:
                case WriteIsr(state=state):
                    assert set(state.isr_ids) <= {*self.assignment.replicas, BrokerId(self.leader)}
                    self.writes.append(effect)
                    self.settle(state)
                case CloseReplicas(brokers):
                    self.closed.append(brokers)
                    self.turn()
                case CompleteReassignment(state=state, assigned=assigned):
                    assert self.core.isr.version == effect.version
                    self.completed.append(effect)
                    if not self.held:
                        self.complete(state, assigned)
                case CutOff(brokers):
                    self.cut_off.append(brokers)
                case Acknowledge(tickets):
                    self.acknowledged.extend(tickets)
                case AdvanceWatermark() | TimeOut() | StepDown():
                    pass

    def settle(self, state: PartitionState) -> None:
        self.written(state)
        self.turn()

    def written(self, state: PartitionState) -> None:
        self.record, self.version = state, self.version + 1
        if state.leader == self.leader:
            assert self.core.isr_read(state, self.version) is None

    def complete(self, state: PartitionState, assigned: tuple[BrokerId, ...]) -> None:
        self.written(state)
        if state.leader == self.leader:
            self.assign(PartitionAssignment(assigned, 2))
