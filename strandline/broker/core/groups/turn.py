"""The state that the parts of a coordinator share: time, timers, writes in flight, and effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strandline.broker.core.groups.effects import (
    Answer,
    Append,
    Call,
    Effect,
    EventKind,
    Failed,
    GroupEvent,
    Instant,
    Publish,
)
from strandline.broker.core.groups.limits import GroupLimits
from strandline.broker.core.groups.state_bytes import StateBytes
from strandline.broker.core.groups.timers import Timer, Timers
from strandline.errors import CoordinatorNotAvailable, NotCoordinator, NotLeaderOrFollower, StrandlineError
from strandline.ids import TopicPartition
from strandline.records import Headers
from strandline.security.principal import Principal
from strandline.vocabulary.groups import Answered

OnResult = Callable[[int, StrandlineError | None], None]
"""Called with the write's id and its error, None if it is committed."""


class Turn:
    """The coordinator's present turn: each of its calls is `begin`, decisions, `end`."""

    __slots__ = (
        "_effects",
        "_open",
        "_writes",
        "_writes_count",
        "by",
        "group",
        "limits",
        "now",
        "state_bytes",
        "timers",
    )

    def __init__(self, limits: GroupLimits) -> None:
        self.limits = limits
        self.state_bytes = StateBytes(limits.group_state_bytes_max)
        self.timers = Timers()
        self.now = Instant(0.0, 0)
        self.by: Principal | None = None  # the caller; None: none, or callers are not distinguished
        self.group = ""  # the group whose turn it is, empty between turns
        self._effects: list[Effect] = []
        self._open: dict[Call[Any], str] = {}  # unanswered calls, with the group that they ask about
        self._writes: dict[int, tuple[str, OnResult]] = {}  # writes in flight, with their groups
        self._writes_count = 0

    def begin(self, now: Instant, by: Principal | None = None) -> None:
        self.now = now
        self.by = by
        self._effects = []

    def end(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    # --- effects -----------------------------------------------------------------------------

    def open(self, call: Call[Any], group: str) -> None:
        """A call that asks about this group has arrived."""
        self._open[call] = group

    def answer(self, call: Call[Answered], value: Answered | StrandlineError) -> None:
        self._open.pop(call, None)
        self._effects.append(Answer(call, value))

    def refuse_open(self, error: StrandlineError, *, of: str | None = None) -> None:
        """Answer every open call with `error`; if `of` is a group, only the calls about that group."""
        for call in [call for call, asked in self._open.items() if of in (None, asked)]:
            self.answer(call, error)

    def report_failure(self, group: str, held: str, error: Exception) -> None:
        self._effects.append(Failed(group, held, error))

    def append(
        self,
        records: tuple[tuple[bytes, bytes | None], ...],
        settle: OnResult,
        headers: tuple[Headers, ...] = (),
    ) -> int:
        """Have records written; `settle` is called with the result. Returns the write's id."""
        self._writes_count += 1
        self._writes[self._writes_count] = self.group, settle
        self._effects.append(Append(self._writes_count, records, headers))
        return self._writes_count

    def publish(
        self,
        kind: EventKind,
        group: str,
        generation: int,
        *,
        at_ms: int | None = None,
        member: str = "",
        reason: str = "",
        caused_by: str = "",
        partitions: tuple[TopicPartition, ...] = (),
    ) -> None:
        at_ms = self.now.wall_ms if at_ms is None else at_ms
        self.publish_event(GroupEvent(kind, group, generation, at_ms, member, reason, caused_by, partitions))

    def publish_event(self, event: GroupEvent) -> None:
        """Have a complete event published."""
        self._effects.append(Publish(event))

    # --- writes and timers -------------------------------------------------------------------

    @property
    def last_write(self) -> int:
        """The id of the last write that was requested; 0 before the first."""
        return self._writes_count

    @property
    def writes_in_flight(self) -> list[int]:
        """The ids of the writes without a result."""
        return list(self._writes)

    def group_of(self, write_id: int) -> str:
        """The group of a write in flight; empty for an unknown write."""
        return self._writes[write_id][0] if write_id in self._writes else ""

    def ignore_writes_of(self, group: str) -> None:
        """Ignore the results of this group's writes."""
        for write_id in [write_id for write_id, (of, _) in self._writes.items() if of == group]:
            del self._writes[write_id]

    def settle(self, write_id: int, error: StrandlineError | None) -> None:
        """Deliver the result of a write; an unknown write is ignored."""
        _, settle = self._writes.pop(write_id, ("", None))
        if settle is not None:
            settle(write_id, error)

    def start(self, timer: Timer, after_ms: float) -> None:
        self.timers.set(timer, self.now.monotonic_s + after_ms / 1000)


def unwritten(what: str, error: StrandlineError) -> StrandlineError:
    """The answer to calls that waited for a failed write: ask again, here or where the log now is; or
    the failure itself, if asking again does not help."""
    if isinstance(error, NotCoordinator) or not error.retriable:
        return error
    if isinstance(error, NotLeaderOrFollower):
        return NotCoordinator(f"{what} was not written: {error.message}", leader=error.leader)
    return CoordinatorNotAvailable(f"{what} was not written: {error.message}")
