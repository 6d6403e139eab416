"""Replicas that a leader asked to close: how long it waits for them, and who did not close in time.

    open      nobody of AR − RAR was asked
    asked     they were asked to stop fetching; the time runs
    cut off   one that fetched on past that time: it is neither served nor counted any more

Seed 003: "wait until the replicas are closed or probably timeout and raise error". All of RAR is in sync
without them, so the partition can do without a replica that does not answer; it leaves the ISR as one that
is late does, in ZooKeeper first, and only then may the HW pass it.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline.ids import BrokerId


class Closing:
    """Of one leadership."""

    def __init__(self, patience_s: float) -> None:
        self.patience_s = patience_s
        self.due: float | None = None
        """When those that were asked have to be closed; None: nobody was asked."""
        self.cut_off: frozenset[BrokerId] = frozenset()

    @property
    def asked(self) -> bool:
        return self.due is not None

    def ask(self, now: float) -> None:
        self.due = now + self.patience_s

    def ask_again(self) -> None:
        """Nobody was asked after all, or what the asking rested on has changed: everybody is served again."""
        self.due = None
        self.cut_off = frozenset()

    def over(self, assigned: Iterable[BrokerId]) -> None:
        """The reassignment is complete: who was cut off stays so unless it is assigned again."""
        self.due = None
        self.cut_off -= set(assigned)

    def is_overdue(self, now: float) -> bool:
        return self.due is not None and now >= self.due

    def cut(self, fetching: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
        """Those of these that are cut off from now on."""
        late = tuple(sorted(set(fetching) - self.cut_off))
        self.cut_off |= set(late)
        return late
