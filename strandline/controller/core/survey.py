"""A recent reading of everything in ZooKeeper: the basis of decisions about drains, repairs and readiness.

Every write that follows from it checks the znodes that it was based on: others may have acted since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from strandline.controller.core.placement import ReplicaAssignment
from strandline.ids import NO_BROKER, BrokerId, PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.vocabulary.metadata import Drain, PartitionState, Reassignment, Registration


@dataclass(frozen=True, slots=True)
class SurveyedPartition:
    """One partition: AR, the content of its `isr` znode, its bound, and its reassignment."""

    topic: str
    key: PartitionKey
    assigned: ReplicaAssignment
    state: PartitionState
    min_insync: int
    reassignment: Reassignment | None = None

    def __str__(self) -> str:
        return str(self.name)

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.key.partition)

    @property
    def wanted(self) -> ReplicaAssignment:
        """AR at the end of the reassignment in progress, if any."""
        return self.assigned if self.reassignment is None else self.reassignment.target


@dataclass(frozen=True, slots=True)
class StandingReassignment:
    """A reassignment znode, and the version at which it was read."""

    topic: str
    partition: PartitionId
    topic_id: TopicId
    version: int


@dataclass(frozen=True, slots=True)
class Survey:
    """`topics` are the existing incarnations, including those whose creation is not finished."""

    live: Mapping[BrokerId, Registration]
    known: Collection[BrokerId]
    """Brokers that are registered, or were once and have a queue."""
    drains: Mapping[BrokerId, Drain]
    topics: Mapping[str, TopicId]
    partitions: Sequence[SurveyedPartition]
    reassignments: Sequence[StandingReassignment] = ()
    noticed: Mapping[BrokerId, int] = field(default_factory=dict)
    """The number of waiting election notices of each broker that has any."""

    def is_live(self, partition: SurveyedPartition, broker: BrokerId) -> bool:
        """True if it is in sync, registered in the life that the ISR lists, and not about to stop."""
        registration = self.live.get(broker)
        return (
            registration is not None
            and not registration.shutting_down
            and any(m.broker == broker and m.broker_epoch == registration.epoch for m in partition.state.isr)
        )

    def is_led(self, partition: SurveyedPartition) -> bool:
        """True if a broker leads it that is registered in the life in which it was elected."""
        state = partition.state
        registration = self.live.get(state.leader)
        return (
            state.leader != NO_BROKER
            and registration is not None
            and any(m.broker == state.leader and m.broker_epoch == registration.epoch for m in state.isr)
        )

    def may_be_led(self, partition: SurveyedPartition) -> bool:
        """True if it is led, or a member of its ISR is alive, in any life, and may stand for election."""
        state = partition.state
        return self.is_led(partition) or not state.isr or any(b in self.live for b in state.isr_ids)

    def is_drained(self, broker: BrokerId) -> bool:
        """True if it should lead nothing."""
        return broker in self.drains

    def is_emptied(self, broker: BrokerId) -> bool:
        """True if it should have no replica."""
        drain = self.drains.get(broker)
        return drain is not None and drain.replicas

    @property
    def hosts(self) -> Sequence[Registration]:
        """Brokers that may get replicas: alive, not about to stop, not being emptied; by id."""
        return [
            registration
            for broker, registration in sorted(self.live.items())
            if not registration.shutting_down and not self.is_emptied(broker)
        ]
