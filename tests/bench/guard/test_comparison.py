"""How `make bench-guard` measures in turns, and what it concludes (PERFORMANCE: ratios of one run)."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from strandline_lab.bench.guard.comparison import (
    COLUMNS,
    FAILURES_MAX,
    Comparison,
    Measure,
    NotMeasured,
    Pair,
    Side,
    Verdict,
    compare,
    orders,
)
from strandline_lab.bench.guard.figures import FIGURES, Figure

RATE = Figure("a rate", "MB/s", "mb_per_s", ())
TIME = Figure("a time", "ms", "p50_ms", (), is_time=True)
QUICK, SLOW = 100.0, 80.0


class Fake:
    """A machine of two trees. Its speed drifts; `slowed` are the figures of which the new tree makes less.

    The first measurements of a time fail: `failures` of them.
    """

    def __init__(self, *slowed: Figure, failures: int = 0) -> None:
        self.slowed = slowed
        self.failures = failures
        self.asked: list[tuple[int, Side, str]] = []
        self.rounds = 0
        self._chance = random.Random(0)
        self._speed = 1.0

    @asynccontextmanager
    async def open_round(self) -> AsyncIterator[Measure]:
        self.rounds += 1
        self._speed *= 0.9
        yield self.measure

    async def measure(self, side: Side, figure: Figure) -> float:
        if figure.is_time and self.failures:
            self.failures -= 1
            raise NotMeasured("its cluster does not serve")
        self.asked.append((self.rounds, side, figure.name))
        made = self._speed * self._chance.uniform(0.97, 1.03)
        made *= SLOW if side is Side.NEW and figure in self.slowed else QUICK
        return 1 / made if figure.is_time else made


async def compared(fake: Fake, rounds: int = 8) -> Mapping[str, Comparison]:
    found = await compare([RATE, TIME], rounds, fake.open_round, lambda line: None)
    return {each.figure.name: each for each in found}


async def test_sides_are_measured_in_turns_and_the_order_turns_every_round() -> None:
    """Both sides of a pair come one after the other, and neither is always the first."""
    fake = Fake()
    await compared(fake, 6)
    old, new = Side.OLD, Side.NEW
    assert fake.asked[:8] == [
        (1, old, "a rate"), (1, new, "a rate"), (1, old, "a time"), (1, new, "a time"),
        (2, new, "a rate"), (2, old, "a rate"), (2, new, "a time"), (2, old, "a time"),
    ]  # fmt: skip
    assert fake.rounds == 6
    assert list(orders(4)) == [(old, new), (new, old), (old, new), (new, old)]


@pytest.mark.parametrize("slowed", [RATE, TIME])
async def test_what_is_slower_is_found_and_nothing_else(slowed: Figure) -> None:
    """On a machine that gets slower by half within the run; more of a time is slower, less of a rate."""
    found = await compared(Fake(slowed))
    assert {name for name, each in found.items() if each.verdict is Verdict.SLOWER} == {slowed.name}
    assert found[slowed.name].speed.middle == pytest.approx(SLOW / QUICK, rel=0.05)
    assert found[slowed.name].is_beyond(0.95)
    assert not found[slowed.name].is_beyond(0.7)


async def test_a_round_that_fails_begins_anew_and_counts_once() -> None:
    """A pair has both sides of one round; what was measured before the failure is not counted."""
    fake = Fake(failures=FAILURES_MAX)
    found = await compared(fake, 6)
    assert fake.rounds == 6 + FAILURES_MAX
    assert {len(each.pairs) for each in found.values()} == {6}


async def test_a_tree_that_cannot_be_measured_is_an_error() -> None:
    fake = Fake(failures=FAILURES_MAX + 1)
    with pytest.raises(NotMeasured, match="does not serve"):
        await compared(fake, 6)


async def test_alike_trees_show_no_difference() -> None:
    found = await compared(Fake())
    assert {each.verdict for each in found.values()} == {Verdict.NO_DIFFERENCE}
    assert not any(each.is_beyond(0.95) for each in found.values())


def test_what_is_faster_is_said_with_both_medians() -> None:
    pairs = [Pair(2.0, 1.0)] * 8
    found = Comparison.of(TIME, pairs)
    assert found.verdict is Verdict.FASTER
    row = dict(zip(COLUMNS, found.row(), strict=True))
    assert row[""] == "a time, ms"
    assert (row["old"], row["new"]) == ("2.00 (2.00–2.00)", "1.00 (1.00–1.00)")
    assert row["speed, new / old (95 %)"] == "2.00 (2.00–2.00)"


def test_a_difference_that_is_smaller_than_the_bound_does_not_fail() -> None:
    found = Comparison.of(RATE, [Pair(100.0, 97.0)] * 8)
    assert found.verdict is Verdict.SLOWER
    assert not found.is_beyond(0.95)


def test_six_figures_are_compared() -> None:
    assert [figure.is_time for figure in FIGURES] == [False, False, True, False, False, True]
