"""Counts how often what a group shares stood still: an application's tasks, a topic's partitions. Pure.

A stop is a time in which no member that runs has something that a member had before. A member that is paused
or dead has nothing. A move is a stop after which another member has it; it may have no length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

STOPS_PER_CHANGE_MAX: Final = 2
"""How often one thing may stop, at most, for each change of the members and each fault: the group may take it
away, and give it back to where it was."""


class Stop(NamedTuple):
    """From when to when, in virtual seconds, and whether another member went on."""

    what: str
    from_s: float
    to_s: float
    moved: bool

    @property
    def length_s(self) -> float:
        return self.to_s - self.from_s


class Stops:
    """What was seen at one look after the other."""

    def __init__(self) -> None:
        self.over: list[Stop] = []
        """Those that have ended, in the order of their ends."""
        self._owners: dict[str, str] = {}
        """Who had it last."""
        self._stopped_s: dict[str, float] = {}

    def see(self, now_s: float, owners: Mapping[str, str]) -> None:
        """These members, by name, have these things now."""
        for what in self._owners.keys() - owners.keys():
            self._stopped_s.setdefault(what, now_s)
        for what, owner in owners.items():
            before = self._owners.get(what, owner)
            from_s = self._stopped_s.pop(what, None)
            if from_s is not None or before != owner:
                self.over.append(Stop(what, now_s if from_s is None else from_s, now_s, before != owner))
            self._owners[what] = owner

    @property
    def standing(self) -> list[str]:
        """What no member has now, in the order of the names."""
        return sorted(self._stopped_s)

    @property
    def moves(self) -> int:
        return sum(stop.moved for stop in self.over)

    def too_many(self, changes: int) -> str:
        """A sentence about what stopped more often than this number of changes explains; empty if nothing
        did."""
        what, count = self.most()
        if count <= STOPS_PER_CHANGE_MAX * changes:
            return ""
        return f"{what} stopped {count} times, with {changes} changes of the members and faults"

    @property
    def longest_s(self) -> float:
        return max((stop.length_s for stop in self.over), default=0.0)

    def most(self) -> tuple[str, int]:
        """What stopped most often, and how often; an empty name if nothing stopped."""
        counts: defaultdict[str, int] = defaultdict(int)
        for stop in self.over:
            counts[stop.what] += 1
        return max(counts.items(), key=lambda each: (each[1], each[0]), default=("", 0))
