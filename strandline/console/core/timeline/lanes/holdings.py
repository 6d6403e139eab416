"""The partitions that a member of a group has, over time, from what it took and what it gave up."""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple

from strandline.console.core.timeline.lanes.steps import ALWAYS, Steps
from strandline.console.core.timeline.places import NO_REF, Ref
from strandline.ids import TopicPartition

Held = frozenset[TopicPartition]
NOTHING: Held = frozenset()


class Change(NamedTuple):
    """`took` was added, `gave` taken away; None for `gave`: all that was left."""

    order: int
    at_ms: int
    ref: Ref
    took: Held
    gave: Held | None


class Holdings:
    """What one member has. `order` of a change is its place in the coordinator's decisions."""

    __slots__ = ("_built", "_changes", "_first", "_trimmed")

    def __init__(self) -> None:
        self._first: Held = NOTHING
        """What it had before all changes, as far as it was seen."""
        self._trimmed = False
        self._changes: list[Change] = []
        self._built: Steps[Held] | None = None

    @property
    def last_ms(self) -> int:
        return self._changes[-1].at_ms if self._changes else ALWAYS

    @property
    def empty(self) -> bool:
        """Whether it has nothing now."""
        return not self.steps().last

    @property
    def gone(self) -> bool:
        """Whether it has left."""
        return self._changes[-1].gave is None if self._changes else not self._first

    def add(self, change: Change) -> None:
        insort(self._changes, change, key=lambda each: each.order)
        self._built = None

    def trim(self, floor_ms: int) -> None:
        """Forgets changes before a time; what they led to stays."""
        gone = 0
        while gone < len(self._changes) and self._changes[gone].at_ms <= floor_ms:
            gone += 1
        if gone:
            first = self._begun_with()
            for change in self._changes[:gone]:
                first = _after(first, change)
            self._first, self._trimmed = first, True
            del self._changes[:gone]
            self._built = None

    def before(self, order: int) -> Held:
        """What it held before the coordinator's decision of this place."""
        held = self._begun_with()
        for change in self._changes:
            if change.order >= order:
                break
            held = _after(held, change)
        return held

    def steps(self) -> Steps[Held]:
        """What it held from when on."""
        if self._built is None:
            built: Steps[Held] = Steps()
            held = self._begun_with()
            if held:
                built.add(ALWAYS, held, NO_REF)
            for change in self._changes:
                held = _after(held, change)
                built.add(change.at_ms, held, change.ref, change.order + 1)
            self._built = built
        return self._built

    def _begun_with(self) -> Held:
        """What it must have had at first: also what it gave up without having taken it."""
        if self._trimmed:
            return self._first
        taken: set[TopicPartition] = set(self._first)
        missing: set[TopicPartition] = set()
        for change in self._changes:
            if change.gave is None:
                break
            missing |= change.gave - taken
            taken |= change.took | change.gave
        return self._first | missing


def _after(held: Held, change: Change) -> Held:
    return change.took if change.gave is None else (held | change.took) - change.gave
