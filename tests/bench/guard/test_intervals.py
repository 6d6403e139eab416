"""The statistics of `make bench-guard` (PERFORMANCE: a difference is what chance does not explain)."""

from __future__ import annotations

import math
import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_lab.bench.guard.intervals import PAIRS_MIN, interval, rank_sums, rejected

ratios = st.lists(st.floats(0.1, 10), min_size=PAIRS_MIN, max_size=15)


@pytest.mark.parametrize("pairs", range(8))
def test_rank_sums_are_those_of_all_subsets(pairs: int) -> None:
    """Each pair is above or below with the same chance, if both sides are alike."""
    ranks = range(1, pairs + 1)
    sums = [sum(chosen) for size in range(pairs + 1) for chosen in combinations(ranks, size)]
    assert rank_sums(pairs) == [sums.count(total) for total in range(max(sums) + 1)]


@pytest.mark.parametrize(
    ("pairs", "critical"), [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52)]
)
def test_critical_values_are_those_of_printed_tables(pairs: int, critical: int) -> None:
    """Wilcoxon's signed-rank test, two-sided, 5 %."""
    assert rejected(pairs, 0.05) == critical + 1


def test_too_few_pairs_show_nothing() -> None:
    with pytest.raises(ValueError, match="5 pairs are too few for a confidence of 95%"):
        interval([2.0] * (PAIRS_MIN - 1))


def test_the_interval_of_six_pairs_reaches_from_the_least_to_the_greatest() -> None:
    found = interval([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    assert (found.low, found.middle, found.high) == pytest.approx((1.0, math.sqrt(32), 32.0))


@given(ratios)
def test_the_other_side_s_ratios_give_the_inverse(given_ratios: list[float]) -> None:
    """It does not matter which side is called new."""
    one, other = interval(given_ratios), interval([1 / ratio for ratio in given_ratios])
    assert (one.low, one.middle, one.high) == pytest.approx((1 / other.high, 1 / other.middle, 1 / other.low))
    assert min(given_ratios) <= one.low * (1 + 1e-9) <= one.middle * (1 + 2e-9) <= one.high * (1 + 3e-9)


def test_the_true_ratio_is_inside_as_often_as_is_claimed() -> None:
    """Also with the rare long delays of a busy machine."""
    chance = random.Random(1)

    def measured() -> float:
        return math.exp(chance.gauss(0, 0.1)) * (3 if chance.random() < 0.1 else 1)

    found = [interval([0.8 * measured() / measured() for _ in range(8)]) for _ in range(2_000)]
    assert sum(each.low <= 0.8 <= each.high for each in found) / len(found) >= 0.95
