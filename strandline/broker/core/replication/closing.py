"""Replicas that a leader asked to close: how long it waits for them, and which did not close in time.

    open      no replica of AR − RAR was asked
    asked     they were asked to stop fetching; the timeout runs
    cut off   a replica that still fetched after the timeout: it is neither served nor counted

Kafka's design V3: "wait until the replicas are closed or probably timeout and raise error". All of RAR is in
sync without them, so the partition can do without a replica that does not answer. That replica leaves the ISR
as a late one does: in ZooKeeper first, and only then may the HW pass it.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline.ids import BrokerId


class Closing:
    """The closing replicas of one leadership."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.due: float | None = None
        """When the asked replicas have to be closed; None: none was asked."""
        self.cut_off: frozenset[BrokerId] = frozenset()

    @property
    def asked(self) -> bool:
        return self.due is not None

    def ask(self, now: float) -> None:
        self.due = now + self.timeout_s

    def ask_again(self) -> None:
        """No replica was asked after all, or the reason for asking has changed: all are served again."""
        self.due = None
        self.cut_off = frozenset()

    def completed(self, assigned: Iterable[BrokerId]) -> None:
        """The reassignment is complete: a replica that was cut off stays so unless it is assigned again."""
        self.due = None
        self.cut_off -= set(assigned)

    def is_overdue(self, now: float) -> bool:
        return self.due is not None and now >= self.due

    def cut(self, fetching: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
        """Cuts off those of `fetching` that are not yet, and returns them."""
        late = tuple(sorted(set(fetching) - self.cut_off))
        self.cut_off |= set(late)
        return late
