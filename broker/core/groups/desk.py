"""What the parts of a coordinator share: the time, the timers, the writes under way, and the effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from broker.core.groups.effects import (
    Answer,
    Append,
    Effect,
    EventKind,
    GroupEvent,
    Instant,
    Outcome,
    Publish,
    Token,
)
from broker.core.groups.limits import GroupLimits
from broker.core.groups.timers import Timer, Timers
from strandline.errors import CoordinatorNotAvailable, NotCoordinator, NotLeaderOrFollower, StrandlineError
from strandline.ids import TopicPartition

Settle = Callable[[int, StrandlineError | None], None]
"""Told the write's id and what became of it."""


class Desk(Generic[Token]):
    """One call of the coordinator is one turn at the desk: `begin`, decisions, `end`."""

    __slots__ = ("_effects", "_writes", "_writes_count", "limits", "now", "timers")

    def __init__(self, limits: GroupLimits) -> None:
        self.limits = limits
        self.timers = Timers()
        self.now = Instant(0.0, 0)
        self._effects: list[Effect[Token]] = []
        self._writes: dict[int, Settle] = {}
        self._writes_count = 0

    def begin(self, now: Instant) -> None:
        self.now = now
        self._effects = []

    def end(self) -> list[Effect[Token]]:
        effects, self._effects = self._effects, []
        return effects

    # --- effects -----------------------------------------------------------------------------

    def answer(self, token: Token, value: Outcome | StrandlineError) -> None:
        self._effects.append(Answer(token, value))

    def append(self, records: tuple[tuple[bytes, bytes | None], ...], settle: Settle) -> int:
        """Have records written; `settle` is called with what became of them."""
        self._writes_count += 1
        self._writes[self._writes_count] = settle
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

    def settle(self, write_id: int, error: StrandlineError | None) -> None:
        """What became of a write. Of one that nobody knows (any more), nothing follows."""
        settle = self._writes.pop(write_id, None)
        if settle is not None:
            settle(write_id, error)

    def give_up_writes(self, error: StrandlineError) -> None:
        """No write will be told of any more: each has failed, for all that anybody here will know."""
        for write_id in list(self._writes):
            self.settle(write_id, error)

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
