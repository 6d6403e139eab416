"""What holds from when until when: each step holds until the next one, or until an end."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from strandline.console.core.timeline.places import NO_REF, Ref
from strandline.ids import NO_EPOCH

V = TypeVar("V")

ALWAYS: Final = -(2**62)
"""The time of a value that was there before anything that is known."""


class Step(NamedTuple, Generic[V]):
    """`value` held from `at_ms` until `until_ms`, or holds still if that is None. `merged`: the number of
    steps that this one stands for, because they are too close to be drawn; `parts` has the first of them, and
    the last began at `last_ms`."""

    at_ms: int
    until_ms: int | None
    value: V
    ref: Ref
    order: int
    merged: int = 1
    last_ms: int = ALWAYS
    parts: tuple[Step[V], ...] = ()


class _End(NamedTuple):
    """Nothing up to `order` holds since `at_ms`. `ref`: the event that says so, NO_REF: it was seen."""

    order: int
    at_ms: int
    ref: Ref


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
        self._ends: tuple[_End, ...] = ()
        """By their order."""
        self.seen_ms = ALWAYS
        """When the first step was seen, if no event says when it began."""

    def __len__(self) -> int:
        return len(self._values)

    def add(self, at_ms: int, value: V, ref: Ref, order: int = 0) -> None:
        """Adds what an event says. An equal step of the same time stays; what was only seen gives way."""
        if at_ms <= self.seen_ms and self._at and (self._at[0] == ALWAYS or self._seen_late(order)):
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

    def _seen_late(self, order: int) -> bool:
        """Whether the first step was only seen, after an event of this order had ended it."""
        return self._refs[0] == NO_REF and self._order[0] < order

    def see(self, at_ms: int, value: V, order: int = 0) -> None:
        """Notes what was seen at a time, if events do not say it: it held always if nothing else is known,
        and since then if its order is a later one, or NO_EPOCH, as of what is new. It has not ended then, if
        that was only seen."""
        if not self._values:
            self._insert(0, at_ms if order == NO_EPOCH or self._ends else ALWAYS, value, NO_REF, order)
            self.seen_ms = at_ms
        elif order > self._order[-1]:
            self._insert(len(self._values), max(at_ms, self._at[-1]), value, NO_REF, order)
        elif order == self._order[-1] and self.ended and self._ends[-1].ref == NO_REF:
            self._ends = self._ends[:-1]

    def end(self, at_ms: int, ref: Ref, order: int) -> None:
        """Notes that nothing up to `order` holds since a time, as an event says; NO_REF: as it was seen. What
        was only seen gives way. The same event may come again with a later order."""
        last = bisect_right(self._order, order)
        kept = []
        for each in self._ends:
            same = bisect_right(self._order, each.order) == last
            if same and ref == NO_REF:
                return
            if each.ref != ref and not (same and each.ref == NO_REF):
                kept.append(each)
        if self._at and self._at[0] == ALWAYS and order < self._order[0] and at_ms <= self.seen_ms:
            self._at[0] = self.seen_ms  # it was seen after the end
        self._ends = tuple(sorted([*kept, _End(order, at_ms, ref)]))

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
            self._ends = tuple(end for end in self._ends if self._order and end.order >= self._order[0])

    @property
    def ended(self) -> bool:
        """Whether nothing holds now."""
        return bool(self._values) and self._end_of(len(self._values) - 1) is not None

    @property
    def ends(self) -> tuple[int, ...]:
        """When nothing held any longer, in order."""
        return tuple(sorted(end.at_ms for end in self._ends))

    @property
    def last_ms(self) -> int:
        """The time of the last step; ALWAYS without one."""
        return self._at[-1] if self._at else ALWAYS

    def before(self, ref: Ref) -> Step[V] | None:
        """What held just before this event; None if that is not known, or nothing did."""
        for index in range(len(self._refs) - 1, 0, -1):
            if self._refs[index] == ref:
                return None if self._end_of(index - 1) is not None else self._step(index - 1)
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

    def since(self, holds: Callable[[V], bool]) -> Step[V] | None:
        """The first step of those up to now whose values all satisfy a condition. None if the last one does
        not, or if it is not known when that began."""
        index = len(self._values)
        while index > 0 and holds(self._values[index - 1]) and self._end_of(index - 1) is None:
            index -= 1
        return None if index == len(self._values) or self._at[index] == ALWAYS else self._step(index)

    def _step(self, index: int) -> Step[V]:
        until = self._at[index + 1] if index + 1 < len(self._at) else None
        end_ms = self._end_of(index)
        if end_ms is not None:
            until = end_ms if until is None else min(until, end_ms)
        return Step(self._at[index], until, self._values[index], self._refs[index], self._order[index])

    def _end_of(self, index: int) -> int | None:
        """When the step ended before another one began; None if it did not. An end by a clock that is behind
        is shown at the step's beginning."""
        here = bisect_left(self._ends, self._order[index], key=lambda end: end.order)
        if here == len(self._ends):
            return None
        end = self._ends[here]
        goes_on = index + 1 < len(self._order) and self._order[index + 1] <= end.order
        return None if goes_on else max(end.at_ms, self._at[index])

    def drawn(self, from_ms: int, until_ms: int, pixel_ms: float, parts_max: int = 0) -> Iterator[Step[V]]:
        """The steps within a view, at most two a pixel: steps that end within the pixel in which they begin
        are one, with their number, the value of the last of them, and at most `parts_max` parts. A step that
        stands for itself has its own times, also if they are beyond the view; ALWAYS if its beginning is not
        known."""
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
                        parts = tuple(map(self._step, range(index, min(last, index + parts_max))))
                        value, order, last_ms = self._values[last - 1], self._order[last - 1], at[last - 1]
                        yield Step(begins, at[last], value, NO_REF, order, last - index, last_ms, parts)
                index = last
            step = self._step(index)
            if step.until_ms is None or step.until_ms > from_ms:
                yield step
            index += 1
