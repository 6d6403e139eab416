"""Everything as ZooKeeper had it a moment ago: what drains, mends and readiness are decided by.

Nothing that follows from it is written without a check of what it was read from: by the time of the write
another may have acted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from strandline.controller.core.placement import Assignment
from strandline.ids import NO_BROKER, BrokerId, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.metadata import Drain, PartitionState, Reassignment, Registration


@dataclass(frozen=True, slots=True)
class SurveyedPartition:
    """One partition: AR, what its `isr` znode says, its bound, and where it is on its way to."""

    topic: str
    key: PartitionKey
    assigned: Assignment
    state: PartitionState
    min_insync: int
    reassignment: Reassignment | None = None

    def __str__(self) -> str:
        return f"{self.topic}-{self.key.partition}"

    @property
    def wanted(self) -> Assignment:
        """Who is to have it at the end of the reassignment that is under way, if one is."""
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
    """`topics` are the incarnations that are there, also those whose creation is not finished."""

    live: Mapping[BrokerId, Registration]
    known: Collection[BrokerId]
    """Who is registered, or was once and has a queue."""
    drains: Mapping[BrokerId, Drain]
    topics: Mapping[str, TopicId]
    partitions: Sequence[SurveyedPartition]
    reassignments: Sequence[StandingReassignment] = ()
    noticed: Mapping[BrokerId, int] = field(default_factory=dict)
    """How many election notices wait for each broker that has any."""

    def is_live(self, partition: SurveyedPartition, broker: BrokerId) -> bool:
        """In sync, registered in the life that the ISR lists, and not about to stop."""
        registration = self.live.get(broker)
        return (
            registration is not None
            and not registration.shutting_down
            and any(m.broker == broker and m.broker_epoch == registration.epoch for m in partition.state.isr)
        )

    def is_led(self, partition: SurveyedPartition) -> bool:
        """By a broker that is registered in the life in which it was elected."""
        state = partition.state
        registration = self.live.get(state.leader)
        return (
            state.leader != NO_BROKER
            and registration is not None
            and any(m.broker == state.leader and m.broker_epoch == registration.epoch for m in state.isr)
        )

    def may_be_led(self, partition: SurveyedPartition) -> bool:
        """Whether somebody leads it, or a member of its ISR is alive, in whichever life, and may stand."""
        state = partition.state
        return self.is_led(partition) or not state.isr or any(b in self.live for b in state.isr_ids)

    def is_drained(self, broker: BrokerId) -> bool:
        """Whether it is to lead nothing."""
        return broker in self.drains

    def is_emptied(self, broker: BrokerId) -> bool:
        """Whether it is to have no replica."""
        drain = self.drains.get(broker)
        return drain is not None and drain.replicas

    @property
    def hosts(self) -> Sequence[Registration]:
        """Who may get replicas: alive, not about to stop, not being emptied; by id."""
        return [
            registration
            for broker, registration in sorted(self.live.items())
            if not registration.shutting_down and not self.is_emptied(broker)
        ]
