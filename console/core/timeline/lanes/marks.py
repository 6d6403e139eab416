"""What happens in a moment: truncations, unclean elections."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from strandline.console.core.timeline.places import NO_REF, Ref


class Mark(NamedTuple):
    """`number` marks of one kind within a pixel; `ref` is NO_REF for more than one."""

    at_ms: int
    kind: str
    ref: Ref
    number: int


class Marks:
    """Moments in the order of time, each with its kind."""

    __slots__ = ("_at", "_kinds", "_refs", "changes")

    def __init__(self) -> None:
        self._at = array("q")
        self._kinds: list[str] = []
        self._refs = array("q")
        self.changes = 0
        """How often it was changed."""

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, at_ms: int, kind: str, ref: Ref) -> None:
        self.changes += 1
        here = bisect_right(self._at, at_ms)
        self._at.insert(here, at_ms)
        self._kinds.insert(here, kind)
        self._refs.insert(here, ref)

    def trim(self, floor_ms: int) -> None:
        """Forgets those before a time."""
        self.changes += 1
        gone = bisect_left(self._at, floor_ms)
        del self._at[:gone], self._kinds[:gone], self._refs[:gone]

    def between(self, from_ms: int, until_ms: int, most: int | None = None) -> list[tuple[int, str, Ref]]:
        """Those of a time, the newest `most` of them."""
        low, high = bisect_left(self._at, from_ms), bisect_left(self._at, until_ms)
        low = low if most is None else max(low, high - most)
        return list(zip(self._at[low:high], self._kinds[low:high], self._refs[low:high], strict=True))

    def drawn(self, from_ms: int, until_ms: int, pixel_ms: float) -> Iterator[Mark]:
        """The marks within a view, one for each pixel and kind."""
        index, end = bisect_left(self._at, from_ms), bisect_left(self._at, until_ms)
        while index < end:
            pixel_end = from_ms + (int((self._at[index] - from_ms) / pixel_ms) + 1) * pixel_ms
            following = max(index + 1, bisect_left(self._at, pixel_end, index, end))
            if following == index + 1:
                yield Mark(self._at[index], self._kinds[index], self._refs[index], 1)
            else:
                kinds = self._kinds[index:following]
                for kind, count in Counter(kinds).items():
                    first = index + kinds.index(kind)
                    yield Mark(self._at[first], kind, self._refs[first] if count == 1 else NO_REF, count)
            index = following
