"""The effects that only coordinators of groups have: events."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from strandline.broker.core.coordinators.effects import Answer, Append, Failed
from strandline.ids import TopicPartition


class EventKind(Enum):
    """Kinds of events of a group, in the words of the events topic."""

    REBALANCE_STARTED = "rebalance_started"
    GENERATION_STARTED = "generation_started"
    GENERATION_STABLE = "generation_stable"
    GENERATION_ENDED = "generation_ended"
    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    ASSIGNED = "assigned"
    REVOKING = "revoking"
    REVOKED = "revoked"
    LOST = "lost"
    TASK_LEARNING = "task_learning"
    TASK_PROGRESS = "task_progress"
    TASK_READY = "task_ready"
    TASK_RUNNING = "task_running"
    TASK_RESTORING = "task_restoring"
    TASK_SUSPENDED = "task_suspended"
    TASK_CLOSED = "task_closed"
    TASK_STANDBY = "task_standby"


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """One event of a group.

    `generation` is the one in which it happened; `member` the member concerned, empty for the group as a
    whole; `caused_by` the member that caused a rebalance. `at_ms` is the wall clock of the coordinator; for
    changes of `partitions` or of a `task` that a member reports, it is the member's. Figures of a task are -1
    if they are unknown.
    """

    kind: EventKind
    group: str
    generation: int
    at_ms: int
    member: str = ""
    reason: str = ""
    caused_by: str = ""
    partitions: tuple[TopicPartition, ...] = ()
    task: str = ""
    lag: int = -1
    records_per_s: float = -1
    remaining_ms: int = -1
    type: str = ""
    """That of a group whose coordinator assigns; empty for any other."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Add the event to the events topic. Nothing waits for it."""

    event: GroupEvent


Effect = Answer[Any] | Append | Publish | Failed
