"""What the parts of a coordinator share: the time, the timers, the writes under way, and the effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from strandline.broker.core.groups.effects import (
    Answer,
    Append,
    Effect,
    EventKind,
    Failed,
    GroupEvent,
    Instant,
    Outcome,
    Publish,
    Token,
)
from strandline.broker.core.groups.kept import KeptBytes
from strandline.broker.core.groups.limits import GroupLimits
from strandline.broker.core.groups.timers import Timer, Timers
from strandline.errors import CoordinatorNotAvailable, NotCoordinator, NotLeaderOrFollower, StrandlineError
from strandline.ids import TopicPartition

Settle = Callable[[int, StrandlineError | None], None]
"""Told the write's id and what became of it."""


class Desk(Generic[Token]):
    """One call of the coordinator is one turn at the desk: `begin`, decisions, `end`."""

    __slots__ = ("_effects", "_open", "_writes", "_writes_count", "group", "kept", "limits", "now", "timers")

    def __init__(self, limits: GroupLimits) -> None:
        self.limits = limits
        self.kept = KeptBytes(limits.group_state_bytes_max)
        self.timers = Timers()
        self.now = Instant(0.0, 0)
        self.group = ""  # whose turn it is, empty between turns
        self._effects: list[Effect[Token]] = []
        self._open: dict[Token, str] = {}  # calls that are not answered yet, with the group they ask
        self._writes: dict[int, tuple[str, Settle]] = {}  # under way, with the group that they are of
        self._writes_count = 0

    def begin(self, now: Instant) -> None:
        self.now = now
        self._effects = []

    def end(self) -> list[Effect[Token]]:
        effects, self._effects = self._effects, []
        return effects

    # --- effects -----------------------------------------------------------------------------

    def open(self, token: Token, group: str) -> None:
        """A call has come that asks this group."""
        self._open[token] = group

    def answer(self, token: Token, value: Outcome | StrandlineError) -> None:
        self._open.pop(token, None)
        self._effects.append(Answer(token, value))

    def refuse_open(self, error: StrandlineError, *, of: str | None = None) -> None:
        """Answer every call that is not answered yet; only those that ask one group, if it is named."""
        for token in [token for token, asked in self._open.items() if of in (None, asked)]:
            self.answer(token, error)

    def report_failure(self, group: str, held: str, error: Exception) -> None:
        self._effects.append(Failed(group, held, error))

    def append(self, records: tuple[tuple[bytes, bytes | None], ...], settle: Settle) -> int:
        """Have records written; `settle` is called with what became of them."""
        self._writes_count += 1
        self._writes[self._writes_count] = self.group, settle
        self._effects.append(Append(self._writes_count, records))
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
        self.tell(GroupEvent(kind, group, generation, at_ms, member, reason, caused_by, partitions))

    def tell(self, event: GroupEvent) -> None:
        """Have an event published that is complete."""
        self._effects.append(Publish(event))

    # --- writes and timers -------------------------------------------------------------------

    @property
    def under_way(self) -> list[int]:
        """The writes that have no result yet."""
        return list(self._writes)

    def group_of(self, write_id: int) -> str:
        """The group that a write under way is of; empty for a write that is not known."""
        return self._writes[write_id][0] if write_id in self._writes else ""

    def forget_writes_of(self, group: str) -> None:
        """What becomes of the writes of this group has no consequences here."""
        for write_id in [write_id for write_id, (of, _) in self._writes.items() if of == group]:
            del self._writes[write_id]

    def settle(self, write_id: int, error: StrandlineError | None) -> None:
        """What became of a write. Nothing follows for a write that is not known."""
        _, settle = self._writes.pop(write_id, ("", None))
        if settle is not None:
            settle(write_id, error)

    def start(self, timer: Timer, after_ms: float) -> None:
        self.timers.set(timer, self.now.monotonic_s + after_ms / 1000)


def unwritten(what: str, error: StrandlineError) -> StrandlineError:
    """What those are told who waited for a write that failed: ask again, here or where the log now is; or
    the failure itself, if asking again does not help."""
    if isinstance(error, NotCoordinator) or not error.retriable:
        return error
    if isinstance(error, NotLeaderOrFollower):
        return NotCoordinator(f"{what} was not written: {error.message}", leader=error.leader)
    return CoordinatorNotAvailable(f"{what} was not written: {error.message}")
