"""A coordinator's inputs and effects, as values.

A driver carries the effects of a call out in their order. An answer that depends on a write is not
among the effects of the call that requested the write, but among those of `appended`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import repeat
from typing import Any, Generic

from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.records import Headers
from strandline.vocabulary.groups import Answered


class Call(ABC, Generic[Answered]):
    """One call that waits for its answer: an `Answered`, or the error that refuses it. The driver has a class
    of its own; a coordinator only passes the call back, in an `Answer`."""

    __slots__ = ()

    @abstractmethod
    def deliver(self, answer: Answered | StrandlineError) -> None:
        """Ends the wait. Called once, by the driver."""


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment on two clocks: timeouts use the monotonic clock, records and events the wall clock."""

    monotonic_s: float
    wall_ms: int
    expiry_ms: int | None = None
    """The time by which offsets expire, from retention's clock; None: `wall_ms`."""


# --- effects ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer(Generic[Answered]):
    """Answers a waiting call. Each call is answered exactly once."""

    call: Call[Answered]
    value: Answered | StrandlineError

    def deliver(self) -> None:
        self.call.deliver(self.value)


@dataclass(frozen=True, slots=True)
class Append:
    """Write these (key, value) records in one batch; None for a value is a tombstone.

    Then call `appended` with `write_id`: no error once the batch is committed. Batches go into the log in
    the order of these effects; results may come back in any order.
    """

    write_id: int
    records: tuple[tuple[bytes, bytes | None], ...]
    headers: tuple[Headers, ...] = ()
    """Of each record; empty: none has any."""

    def each(self) -> Iterator[tuple[bytes, bytes | None, Headers]]:
        """Key, value and headers of each record."""
        headers = self.headers or repeat(())
        return ((key, value, of_one) for (key, value), of_one in zip(self.records, headers, strict=False))


class EventKind(Enum):
    """Kinds of events of a group, in the words of the events topic."""

    REBALANCE_STARTED = "rebalance_started"
    GENERATION_STARTED = "generation_started"
    GENERATION_STABLE = "generation_stable"
    GENERATION_ENDED = "generation_ended"
    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    ASSIGNED = "assigned"
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


@dataclass(frozen=True, slots=True)
class Publish:
    """Add the event to the events topic. Nothing waits for it."""

    event: GroupEvent


@dataclass(frozen=True, slots=True)
class Failed:
    """A turn of the group raised `error`: a defect, or input that no check foresaw. The group is Dead.

    To be logged with the traceback. `held` describes the group before, empty for one that was not known.
    """

    group: str
    held: str
    error: Exception


Effect = Answer[Any] | Append | Publish | Failed
