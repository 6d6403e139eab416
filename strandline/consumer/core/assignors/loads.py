"""The load of each member, and the least loaded member of a set.

Members are numbers, and a set of them is an integer with a bit for each: balancing intersects and
joins sets thousands of times, and integers do that in one operation.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence


def numbers_in(members: int) -> Iterator[int]:
    """The members of a set, ascending."""
    while members:
        lowest = members & -members
        yield lowest.bit_length() - 1
        members ^= lowest


class Loads:
    """Members by load. n partitions make at most √2n different loads, so scanning them is fast."""

    def __init__(self, loads: Sequence[int]) -> None:
        self._loads = list(loads)
        self._at: dict[int, int] = {}
        """load → the members with it; a load without members is absent."""
        for member, load in enumerate(loads):
            self._at[load] = self._at.get(load, 0) | 1 << member
        self._ascending = sorted(self._at)

    def __getitem__(self, member: int) -> int:
        return self._loads[member]

    @property
    def least(self) -> int:
        return self._ascending[0]

    def least_loaded(self, of: int) -> int:
        """The member with the least load in a set that is not empty; among equals the first."""
        for load in self._ascending:
            if found := self._at[load] & of:
                return next(numbers_in(found))
        raise ValueError("an empty set has no least loaded member")

    def at(self, load: int) -> int:
        """The set of members with this load."""
        return self._at.get(load, 0)

    def up_to(self, load: int) -> int:
        """The set of members with at most this load."""
        found = 0
        for present in self._ascending:
            if present > load:
                break
            found |= self._at[present]
        return found

    def change(self, member: int, by: int) -> None:
        """Change a member's load."""
        before = self._loads[member]
        after = self._loads[member] = before + by
        self._at[before] ^= 1 << member
        if not self._at[before]:
            del self._at[before]
            del self._ascending[bisect_left(self._ascending, before)]
        if after not in self._at:
            self._at[after] = 0
            insort(self._ascending, after)
        self._at[after] |= 1 << member
