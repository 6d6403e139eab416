"""The timers of a coordinator, in a heap. There is at most one of each key.

A heartbeat only moves a deadline further away: that changes one entry of a dict, and the heap is updated when
the old deadline comes. So a thousand members with a heartbeat a second cost the heap next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Timers(Generic[Key]):
    """Deadlines by timer, on one monotonic clock in seconds."""

    __slots__ = ("_at", "_count", "_heap", "_queued")

    def __init__(self) -> None:
        self._at: dict[Key, float] = {}
        self._queued: dict[Key, float] = {}  # the earliest entry in the heap: never after the deadline
        self._heap: list[tuple[float, int, Key]] = []
        self._count = 0  # first set, first served among equal deadlines

    def __len__(self) -> int:
        return len(self._at)

    @property
    def entries(self) -> int:
        """The size of the heap: it includes moved and cancelled timers until they reach its top."""
        return len(self._heap)

    def set(self, timer: Key, at_s: float) -> None:
        """Start the timer, or move its deadline."""
        self._at[timer] = at_s
        queued = self._queued.get(timer)
        if queued is None or at_s < queued:
            self._push(timer, at_s)

    def is_set(self, timer: Key) -> bool:
        return timer in self._at

    def cancel(self, timer: Key) -> None:
        """Forget the timer, if it is set; its entry in the heap is skipped later."""
        self._at.pop(timer, None)

    def cancel_all(self, which: Callable[[Key], bool]) -> None:
        for timer in [timer for timer in self._at if which(timer)]:
            del self._at[timer]

    def pop(self, now_s: float) -> Key | None:
        """Take out the earliest timer whose deadline has come, if there is one."""
        if not self._settle() or self._heap[0][0] > now_s:
            return None
        timer = heappop(self._heap)[2]
        del self._queued[timer], self._at[timer]
        return timer

    def next_deadline(self) -> float | None:
        """When the next timer is due; None if none is set."""
        return self._heap[0][0] if self._settle() else None

    def clear(self) -> None:
        self._at.clear()
        self._queued.clear()
        self._heap.clear()

    def _push(self, timer: Key, at_s: float) -> None:
        self._count += 1
        self._queued[timer] = at_s
        heappush(self._heap, (at_s, self._count, timer))

    def _settle(self) -> bool:
        """Make the top of the heap a deadline in force. False if there is none."""
        while self._heap:
            at_s, _, timer = self._heap[0]
            if self._queued.get(timer) != at_s:
                heappop(self._heap)  # an earlier deadline took its place
                continue
            wanted = self._at.get(timer)
            if wanted == at_s:
                return True
            heappop(self._heap)
            del self._queued[timer]
            if wanted is not None:
                self._push(timer, wanted)
        return False
