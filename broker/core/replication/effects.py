"""What a leader wants done: the effects of `LeaderPartition`, in the order in which they have to happen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from strandline.broker.core.replication.commit_queue import Ticket
from strandline.broker.core.replication.reassignment import Assignment
from strandline.ids import BrokerId, Offset
from strandline.vocabulary.metadata import PartitionState


@dataclass(frozen=True, slots=True)
class WriteIsr:
    """Compare-and-set the `isr` znode; answer with `isr_read`. Nothing that depends on it happens before."""

    state: PartitionState
    version: int
    left: tuple[BrokerId, ...]
    joined: tuple[BrokerId, ...]
    reason: str
    """For people: what each of them did."""


@dataclass(frozen=True, slots=True)
class AdvanceWatermark:
    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class Acknowledge(Generic[Ticket]):
    tickets: Sequence[Ticket]


@dataclass(frozen=True, slots=True)
class TimeOut(Generic[Ticket]):
    """These waited too long under the HW; they may yet commit."""

    tickets: Sequence[Ticket]


@dataclass(frozen=True, slots=True)
class StepDown:
    """Another epoch leads, or this leader may not lead on; `state` is what ZooKeeper has."""

    state: PartitionState


@dataclass(frozen=True, slots=True)
class CloseReplicas:
    """Ask these to stop fetching: RAR is in sync without them. If that was refused call `close_again`."""

    brokers: tuple[BrokerId, ...]
    assignment: Assignment
    """What this was decided on: only if ZooKeeper still says so is it to be done."""


@dataclass(frozen=True, slots=True)
class CutOff:
    """These were asked to close and fetched on for `patience_s`: end their flows, and serve them no more."""

    brokers: tuple[BrokerId, ...]
    patience_s: float


@dataclass(frozen=True, slots=True)
class CompleteReassignment:
    """Write all of this at once; answer with `isr_read` and `assign`. Counts as a change of the ISR."""

    state: PartitionState
    """What `isr` says then: nobody leads if the leadership goes to `successor`."""
    version: int
    assignment: Assignment
    """What this was decided on, as in `CloseReplicas`."""
    removed: tuple[BrokerId, ...]
    """Who has no replica then: AR − RAR, dead ones too."""
    successor: BrokerId
    """Who is to lead; the leader itself if it leads on."""
    reason: str = ""
    """What is to be told of it: who did not close in time."""

    @property
    def assigned(self) -> tuple[BrokerId, ...]:
        """AR from then on."""
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
