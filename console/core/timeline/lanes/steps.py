"""What holds from when until when: each step holds until the next one, or until an end."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from strandline.console.core.timeline.places import NO_REF, Ref

V = TypeVar("V")

ALWAYS: Final = -(2**62)
"""The time of a value that was there before anything that is known."""


class Step(NamedTuple, Generic[V]):
    """`value` held from `at_ms` until `until_ms`, or holds still if that is None. `merged`: the number of
    steps that this one stands for, because they are too close to be drawn."""

    at_ms: int
    until_ms: int | None
    value: V
    ref: Ref
    order: int
    merged: int = 1


class Steps(Generic[V]):
    """Steps in the order of `order` and, within it, of time.

    `order` is what orders events even if clocks disagree: an epoch, an offset. A step whose time contradicts
    the order is shown at the time of its neighbour.
    """

    __slots__ = ("_at", "_ends", "_order", "_refs", "_values", "seen_ms")

    def __init__(self) -> None:
        self._at = array("q")
        self._order = array("q")
        self._refs = array("q")
        self._values: list[V] = []
        self._ends: tuple[tuple[int, Ref], ...] = ()
        """When nothing held any longer, until the next step, and the event that says so; in order."""
        self.seen_ms = ALWAYS
        """When the first step was seen, if no event says when it began."""

    def __len__(self) -> int:
        return len(self._values)

    def add(self, at_ms: int, value: V, ref: Ref, order: int = 0) -> None:
        """Adds what an event says. An equal step of the same time stays; what was only seen gives way."""
        if at_ms <= self.seen_ms and self._at and self._at[0] == ALWAYS:
            self._delete(0)  # what was seen then need not have held before this event
        low = bisect_left(self._order, order)
        high = bisect_right(self._order, order)
        here = bisect_right(self._at, at_ms, low, high)
        if here > low and self._values[here - 1] == value:
            if self._refs[here - 1] == NO_REF and self._at[here - 1] != ALWAYS:
                self._delete(here - 1)  # the same was seen, by a clock that is behind
                here -= 1
            elif self._at[here - 1] == at_ms:
                return
        elif here < high and self._refs[here] == NO_REF and self._values[here] == value:
            self._delete(here)  # it was seen later than it happened
        if here > 0:
            at_ms = max(at_ms, self._at[here - 1])
        if here < len(self._values):
            at_ms = min(at_ms, self._at[here])
        self._insert(here, at_ms, value, ref, order)

    def see(self, at_ms: int, value: V, order: int = 0) -> None:
        """Notes what was seen at a time, if events do not say it: it held always if nothing else is known,
        and since then if its order is a later one. It has not ended then, if that was only seen."""
        if not self._values:
            self._insert(0, at_ms if self._ends else ALWAYS, value, NO_REF, order)
            self.seen_ms = at_ms
        elif order > self._order[-1]:
            self._insert(len(self._values), max(at_ms, self._at[-1]), value, NO_REF, order)
        elif order == self._order[-1] and self.ended and self._ends[-1][1] == NO_REF:
            self._ends = self._ends[:-1]

    def end(self, at_ms: int, ref: Ref) -> None:
        """Notes that nothing held from a time until the next step, as an event says; NO_REF: it was seen.
        What was only seen gives way."""
        if ref == NO_REF:
            if self._values and not self.ended:
                self._ends += ((max(at_ms, self._at[-1] + 1), NO_REF),)
            return
        if self._at and self._at[0] == ALWAYS and at_ms <= self.seen_ms:
            self._at[0] = self.seen_ms  # it was seen after the end
        later = [end for end in self._ends if end[0] >= at_ms and end[1] == NO_REF][:1]
        self._ends = tuple(sorted([*(end for end in self._ends if end not in later), (at_ms, ref)]))

    def _insert(self, here: int, at_ms: int, value: V, ref: Ref, order: int) -> None:
        self._at.insert(here, at_ms)
        self._order.insert(here, order)
        self._refs.insert(here, ref)
        self._values.insert(here, value)

    def _delete(self, here: int) -> None:
        del self._at[here], self._order[here], self._refs[here], self._values[here]

    def trim(self, floor_ms: int) -> None:
        """Forgets what ended before a time. The step that held then stays."""
        gone = bisect_right(self._at, floor_ms) - 1
        if gone > 0:
            del self._at[:gone], self._order[:gone], self._refs[:gone], self._values[:gone]
        if self._ends:
            self._ends = tuple(end for end in self._ends if end[0] > (self._at[0] if self._at else floor_ms))

    @property
    def ended(self) -> bool:
        """Whether nothing holds now."""
        return bool(self._ends) and self._ends[-1][0] > self.last_ms

    @property
    def ends(self) -> tuple[int, ...]:
        """When nothing held any longer, in order."""
        return tuple(end_ms for end_ms, _ in self._ends)

    @property
    def last_ms(self) -> int:
        """The time of the last step; ALWAYS without one."""
        return self._at[-1] if self._at else ALWAYS

    def before(self, ref: Ref) -> Step[V] | None:
        """What held just before this event; None if that is not known, or nothing did."""
        for index in range(len(self._refs) - 1, 0, -1):
            if self._refs[index] == ref:
                step = self._step(index - 1)
                return step if step.until_ms == self._at[index] else None
        return None

    def value_at(self, at_ms: int) -> V | None:
        """What held at a time; None if that is not known, or nothing did."""
        index = bisect_right(self._at, at_ms) - 1
        if index < 0:
            return None
        until_ms = self._step(index).until_ms
        return self._values[index] if until_ms is None or at_ms < until_ms else None

    @property
    def last(self) -> V | None:
        """What holds now; None if that is not known, or nothing does."""
        return self._values[-1] if self._values and not self.ended else None

    def since(self, holds: Callable[[V], bool]) -> int | None:
        """When the time began in which every value until now satisfies a condition. None if the last one does
        not, or if that is not known."""
        index = len(self._values)
        until_ms = None  # of what comes just before
        while index > 0 and holds(self._values[index - 1]) and self._step(index - 1).until_ms == until_ms:
            index -= 1
            until_ms = self._at[index]
        return None if index == len(self._values) or self._at[index] == ALWAYS else self._at[index]

    def _step(self, index: int) -> Step[V]:
        until = self._at[index + 1] if index + 1 < len(self._at) else None
        for end_ms, _ in self._ends:
            if end_ms > self._at[index]:
                until = end_ms if until is None else min(until, end_ms)
                break
        return Step(self._at[index], until, self._values[index], self._refs[index], self._order[index])

    def drawn(self, from_ms: int, until_ms: int, pixel_ms: float) -> Iterator[Step[V]]:
        """The steps within a view, at most two a pixel: steps that end within the pixel in which they begin
        are one, with their number, and the value of the last of them. A step that stands for itself has its
        own times, also if they are beyond the view; ALWAYS if its beginning is not known."""
        at, end = self._at, len(self._at)
        index = max(0, bisect_right(at, from_ms) - 1)
        while index < end and at[index] < until_ms:
            begins = max(at[index], from_ms)
            pixel_end = from_ms + (int((begins - from_ms) / pixel_ms) + 1) * pixel_ms
            if index + 1 < end and at[index + 1] < pixel_end:
                last = bisect_left(at, pixel_end, index + 1, end) - 1  # it may be wide: it stands for itself
                if at[last] > begins:
                    if last == index + 1:
                        yield self._step(index)
                    else:
                        value, order = self._values[last - 1], self._order[last - 1]
                        yield Step(begins, at[last], value, NO_REF, order, last - index)
                index = last
            step = self._step(index)
            if step.until_ms is None or step.until_ms > from_ms:
                yield step
            index += 1
