"""Who makes room where callers share a bounded number of places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

Place = TypeVar("Place")


def first_of_most(taken: Iterable[tuple[Place, Hashable]], newcomer: Hashable) -> Place:
    """The first place of the owner that has most of them, with the one that the newcomer asks for: who takes
    all places loses its own, and not those of others. `taken` has a place and its owner at least once."""
    places = list(taken)
    counts = Counter(owner for _, owner in places)
    if newcomer in counts:
        counts[newcomer] += 1
    most = max(counts.values())
    return next(place for place, owner in places if counts[owner] == most)
