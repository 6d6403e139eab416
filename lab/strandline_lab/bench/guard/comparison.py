"""Measures two trees in turns, and says which figures differ.

The order turns round from round to round (old, new, new, old, …), so that what is measured first, and a
machine that slowly gets faster or slower, favour neither. Each round has clusters of its own: pairs share
nothing that would make all of them differ in the same direction by chance.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Final

from strandline_lab.bench.guard.figures import Figure
from strandline_lab.bench.guard.intervals import Interval, interval
from strandline_lab.bench.report import median_of

BOUND: Final = 0.95
"""A figure fails if its speed is below this share of the old one, with the confidence of the interval."""
FAILURES_MAX: Final = 2


class Side(Enum):
    OLD = "old"
    NEW = "new"


class Verdict(Enum):
    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference shown"


@dataclass(frozen=True, slots=True)
class Pair:
    """A figure of both sides, measured one after the other."""

    old: float
    new: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the pairs of one figure show. `speed` is above 1 if the new side is faster."""

    figure: Figure
    pairs: Sequence[Pair]
    speed: Interval

    @classmethod
    def of(cls, figure: Figure, pairs: Sequence[Pair]) -> Comparison:
        """Raises ValueError if there are too few pairs."""
        return cls(figure, pairs, interval([figure.speed(each.old, each.new) for each in pairs]))

    @property
    def verdict(self) -> Verdict:
        if self.speed.low > 1:
            return Verdict.FASTER
        return Verdict.SLOWER if self.speed.high < 1 else Verdict.NO_DIFFERENCE

    def is_beyond(self, bound: float) -> bool:
        """Whether the whole interval is below the bound."""
        return self.speed.high < bound

    def row(self) -> Sequence[str]:
        """Of the table whose columns are `COLUMNS`."""
        old, new = ([getattr(pair, side.value) for pair in self.pairs] for side in Side)
        speed = f"{self.speed.middle:.2f} ({self.speed.low:.2f}–{self.speed.high:.2f})"
        return (
            f"{self.figure.name}, {self.figure.unit}",
            median_of(old),
            median_of(new),
            speed,
            self.verdict.value,
        )


COLUMNS: Final = ("", "old", "new", "speed, new / old (95 %)", "verdict")

Measure = Callable[[Side, Figure], Awaitable[float]]
OpenRound = Callable[[], AbstractAsyncContextManager[Measure]]
Tell = Callable[[str], None]


def orders(rounds: int) -> Iterator[tuple[Side, Side]]:
    """Which side is measured first, round by round."""
    for number in range(rounds):
        yield (Side.NEW, Side.OLD) if number % 2 else (Side.OLD, Side.NEW)


class NotMeasured(Exception):
    """A command of a tree failed, or its cluster did not start. The text has its error output."""


async def compare(
    figures: Sequence[Figure], rounds: int, open_round: OpenRound, tell: Tell
) -> list[Comparison]:
    """One comparison for each figure, in their order. `tell` gets a line for each pair.

    A round that fails, as on a busy machine a cluster may start too slowly, begins anew. Raises NotMeasured
    if more than `FAILURES_MAX` do.
    """
    measured: list[dict[str, Pair]] = []
    failures = 0
    for number, order in enumerate(orders(rounds), start=1):
        while len(measured) < number:
            try:
                async with open_round() as measure:
                    measured.append(await one_round(figures, order, measure, tell))
            except NotMeasured as error:
                failures += 1
                if failures > FAILURES_MAX:
                    raise
                tell(f"round {number} begins anew: {error}")
        tell(f"{number} of {rounds} rounds are measured")
    return [Comparison.of(figure, [pairs[figure.name] for pairs in measured]) for figure in figures]


async def one_round(
    figures: Sequence[Figure], order: tuple[Side, Side], measure: Measure, tell: Tell
) -> dict[str, Pair]:
    """A pair of each figure, by name. Raises NotMeasured."""
    pairs: dict[str, Pair] = {}
    for figure in figures:
        found = {side: await measure(side, figure) for side in order}
        pair = pairs[figure.name] = Pair(found[Side.OLD], found[Side.NEW])
        speed = figure.speed(pair.old, pair.new)
        tell(f"{figure.name}: {pair.old:g}, {pair.new:g} {figure.unit} ({speed:.2f})")
    return pairs
