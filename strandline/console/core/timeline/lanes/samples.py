"""Two numbers of a partition over time: its high watermark, and the end of its leader's log."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

POINTS_MAX: Final = 400
"""Points of one partition. When there are more, the older half loses every second one."""


class Samples:
    """Points in the order of time."""

    __slots__ = ("_at", "_ends", "_watermarks")

    def __init__(self) -> None:
        self._at = array("q")
        self._watermarks = array("q")
        self._ends = array("q")

    def __len__(self) -> int:
        return len(self._at)

    def add(self, at_ms: int, watermark: int, end: int) -> None:
        """Adds a point, if it is later than the last. Of equal points the first and the last stay."""
        if self._at and at_ms <= self._at[-1]:
            return
        if len(self._at) >= 2 and self._same(-1, watermark, end) and self._same(-2, watermark, end):
            self._at[-1] = at_ms
            return
        self._at.append(at_ms)
        self._watermarks.append(watermark)
        self._ends.append(end)
        if len(self._at) > POINTS_MAX:
            half = POINTS_MAX // 2
            for column in (self._at, self._watermarks, self._ends):
                column[:half] = column[:half:2]

    def _same(self, index: int, watermark: int, end: int) -> bool:
        return self._watermarks[index] == watermark and self._ends[index] == end

    def drawn(self, from_ms: int, until_ms: int, pixel_ms: float) -> tuple[list[list[int]], list[list[int]]]:
        """Watermarks and ends of a view: at most one point for each pixel, and one more on either side."""
        low = max(0, bisect_right(self._at, from_ms) - 1)
        high = min(len(self._at), bisect_left(self._at, until_ms) + 1)
        chosen: list[int] = []
        for index in range(low, high):
            if chosen and int((self._at[index] - from_ms) / pixel_ms) == int(
                (self._at[chosen[-1]] - from_ms) / pixel_ms
            ):
                chosen[-1] = index
            else:
                chosen.append(index)
        return (
            [[self._at[index], self._watermarks[index]] for index in chosen],
            [[self._at[index], self._ends[index]] for index in chosen],
        )
