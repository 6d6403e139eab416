"""How a cost grows with the size of the work: a series of steps, and the exponent between two of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a step. `head` says what it is, and its unit."""

    head: str
    total: bool = False
    """True for the cost of all the work, which is fitted; a figure for each unit, or a rate, is not."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """What grows in a series. `measure` returns the figures of one size."""

    name: str
    title: str
    sizes: Sequence[int]
    figures: Mapping[str, Figure]
    measure: Callable[[int], Awaitable[Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class Step:
    """What was measured at one size."""

    size: int
    figures: Mapping[str, float]


def exponents(steps: Sequence[Step], figure: str) -> list[float | None]:
    """k between each two steps, for a cost that grows as size**k; None if one of the costs is not above 0.

    A part of the cost that does not grow makes k smaller, so the last one says most.
    """
    return [_exponent(one, other, figure) for one, other in pairwise(steps)]


def _exponent(one: Step, other: Step, figure: str) -> float | None:
    before, after = one.figures[figure], other.figures[figure]
    if before <= 0 or after <= 0:
        return None
    return log(after / before) / log(other.size / one.size)


def exponent_of_n_log_n(one: int, other: int) -> float:
    """k between these two sizes, both above 1, of a cost that grows as n log n: the bar.

    >>> round(exponent_of_n_log_n(1_000, 10_000), 2)
    1.12
    """
    return 1 + log(log(other) / log(one)) / log(other / one)
