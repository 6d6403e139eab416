"""The effects of `LeaderPartition`, in the order in which they have to happen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from strandline.broker.core.replication.commit_queue import Ticket
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.ids import BrokerId, Offset
from strandline.vocabulary.metadata import IsrMember, PartitionState


@dataclass(frozen=True, slots=True)
class WriteIsr:
    """Compare-and-set the `isr` znode; answer with `isr_read`. Dependent effects come only after that."""

    state: PartitionState
    version: int
    left: tuple[BrokerId, ...]
    joined: tuple[BrokerId, ...]
    entering: tuple[IsrMember, ...]
    """Those that join, also in another life than the one that was in sync: the write has to fail if one of
    their registrations has changed (I7)."""
    reason: str
    """For people: why each of them left or joined."""


@dataclass(frozen=True, slots=True)
class AdvanceWatermark:
    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class Acknowledge(Generic[Ticket]):
    tickets: Sequence[Ticket]


@dataclass(frozen=True, slots=True)
class TimeOut(Generic[Ticket]):
    """These requests waited too long under the HW; they may yet commit."""

    tickets: Sequence[Ticket]


@dataclass(frozen=True, slots=True)
class StepDown:
    """Another epoch leads, or this leader may not continue; `state` is what ZooKeeper holds."""

    state: PartitionState


@dataclass(frozen=True, slots=True)
class CloseReplicas:
    """Ask these to stop fetching: RAR is in sync without them. If that is refused call `close_again`."""

    brokers: tuple[BrokerId, ...]
    assignment: PartitionAssignment
    """The assignment that this was decided on: act only if ZooKeeper still holds it."""


@dataclass(frozen=True, slots=True)
class CutOff:
    """These were asked to close and still fetched after `close_s`: end their streams, stop serving them."""

    brokers: tuple[BrokerId, ...]
    close_s: float


@dataclass(frozen=True, slots=True)
class CompleteReassignment:
    """Write all of this at once; answer with `isr_read` and `assign`. Counts as a change of the ISR."""

    state: PartitionState
    """The new content of `isr`: without a leader if the leadership goes to `successor`."""
    version: int
    assignment: PartitionAssignment
    """The assignment that this was decided on, as in `CloseReplicas`."""
    removed: tuple[BrokerId, ...]
    """Brokers that lose their replica: AR − RAR, dead ones too."""
    successor: BrokerId
    """The next leader; this leader itself if it stays."""
    reason: str = ""
    """The reason to record: which replicas did not close in time."""

    @property
    def assigned(self) -> tuple[BrokerId, ...]:
        """AR after the write."""
        return self.assignment.target


Effect = (
    WriteIsr
    | AdvanceWatermark
    | Acknowledge[Ticket]
    | TimeOut[Ticket]
    | StepDown
    | CloseReplicas
    | CutOff
    | CompleteReassignment
)
