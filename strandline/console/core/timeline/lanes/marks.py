"""What happens in a moment: truncations, unclean elections."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from strandline.console.core.timeline.places import NO_REF, Ref


class Mark(NamedTuple):
    """`number` marks of one kind within a pixel, the first at `at_ms` and the last at `last_ms`. Of more than
    one, `ref` is NO_REF, and `parts` has the first of them. `about`: the partition, on rows of brokers."""

    at_ms: int
    kind: str
    ref: Ref
    number: int
    last_ms: int
    about: str = ""
    parts: tuple[Mark, ...] = ()


class Marks:
    """Moments in the order of time, each with its kind."""

    __slots__ = ("_about", "_at", "_kinds", "_refs", "changes")

    def __init__(self) -> None:
        self._at = array("q")
        self._kinds: list[str] = []
        self._refs = array("q")
        self._about: list[str] = []
        self.changes = 0
        """How often it was changed."""

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, at_ms: int, kind: str, ref: Ref, about: str = "") -> None:
        self.changes += 1
        here = bisect_right(self._at, at_ms)
        self._at.insert(here, at_ms)
        self._kinds.insert(here, kind)
        self._refs.insert(here, ref)
        self._about.insert(here, about)

    def trim(self, floor_ms: int) -> None:
        """Forgets those before a time."""
        self.changes += 1
        gone = bisect_left(self._at, floor_ms)
        del self._at[:gone], self._kinds[:gone], self._refs[:gone], self._about[:gone]

    def between(self, from_ms: int, until_ms: int, most: int | None = None) -> list[tuple[int, str, Ref]]:
        """Those of a time, the newest `most` of them."""
        low, high = bisect_left(self._at, from_ms), bisect_left(self._at, until_ms)
        low = low if most is None else max(low, high - most)
        return list(zip(self._at[low:high], self._kinds[low:high], self._refs[low:high], strict=True))

    def drawn(self, from_ms: int, until_ms: int, pixel_ms: float, parts_max: int = 0) -> Iterator[Mark]:
        """The marks within a view, one for each pixel and kind, with at most `parts_max` parts each."""
        index, end = bisect_left(self._at, from_ms), bisect_left(self._at, until_ms)
        while index < end:
            pixel_end = from_ms + (int((self._at[index] - from_ms) / pixel_ms) + 1) * pixel_ms
            following = max(index + 1, bisect_left(self._at, pixel_end, index, end))
            if following == index + 1:
                yield self._mark(index)
            else:
                by_kind: dict[str, list[int]] = {}
                for each in range(index, following):
                    by_kind.setdefault(self._kinds[each], []).append(each)
                for kind, found in by_kind.items():
                    yield self._together(kind, found, parts_max)
            index = following

    def _mark(self, index: int) -> Mark:
        at_ms = self._at[index]
        return Mark(at_ms, self._kinds[index], self._refs[index], 1, at_ms, self._about[index])

    def _together(self, kind: str, found: list[int], parts_max: int) -> Mark:
        if len(found) == 1:
            return self._mark(found[0])
        parts = tuple(self._mark(index) for index in found[:parts_max])
        return Mark(self._at[found[0]], kind, NO_REF, len(found), self._at[found[-1]], parts=parts)
