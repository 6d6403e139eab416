"""How many replicas a partition had when: as many as were seen between two changes of its assignment."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Final, NamedTuple

from strandline.console.core.timeline.lanes.steps import ALWAYS

CHANGES_MAX: Final = 100
"""Changes of one partition; before those that are kept, nothing is known."""
END: Final = 2**62


class _Seen(NamedTuple):
    """`number` was seen from `first_ms` to `last_ms`, and nothing else in between."""

    first_ms: int
    last_ms: int
    number: int


class Counts:
    """Changes may come in any order, what is seen in the order of time."""

    __slots__ = ("_changes", "_seen")

    def __init__(self) -> None:
        self._changes: tuple[int, ...] = ()
        self._seen: list[_Seen] = []

    @property
    def now(self) -> int:
        """What was seen last; 0 if nothing was."""
        return self._seen[-1].number if self._seen else 0

    def changed(self, at_ms: int) -> None:
        """An event says that the number may be another one since then."""
        if at_ms in self._changes:
            return
        changes = [*self._changes]
        insort(changes, at_ms)
        self._changes = tuple(changes)
        if len(changes) > CHANGES_MAX:
            self.trim(changes[0])

    def saw(self, at_ms: int, count: int) -> None:
        """The partition has this number of replicas."""
        last = self._seen[-1] if self._seen else None
        if last is not None and last.number == count:
            self._seen[-1] = _Seen(last.first_ms, max(last.last_ms, at_ms), count)
            return
        self._seen = [*self._seen, _Seen(at_ms, at_ms, count)][-CHANGES_MAX:]

    def at(self, at_ms: int) -> int | None:
        """The number at a time; None if it is not known. An answer, or a clock, may be late: of several, what
        was seen the longest between two changes counts."""
        here = bisect_right(self._changes, at_ms)
        low = self._changes[here - 1] if here else ALWAYS
        high = self._changes[here] if here < len(self._changes) else END
        within = [each for each in self._seen if each.last_ms >= low and each.first_ms < high]
        longest = max(
            within,
            key=lambda each: (min(each.last_ms, high) - max(each.first_ms, low), each.first_ms),
            default=None,
        )
        return None if longest is None else longest.number

    def unchanged(self, at_ms: int) -> bool:
        """Whether no change is known after a time."""
        return not self._changes or self._changes[-1] <= at_ms

    def trim(self, floor_ms: int) -> None:
        """Forgets the changes until a time, and what was seen only before the last of them."""
        gone = bisect_right(self._changes, floor_ms)
        if gone:
            last_ms = self._changes[gone - 1]
            self._changes = self._changes[gone:]
            self._seen = [each for each in self._seen if each.last_ms >= last_ms]
