"""Rates and estimates are finite for any times, and right where they can be right."""

from __future__ import annotations

from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.streams.core.progress import OVER_S, REMAINING_S_MAX, Rate, remaining_s

STEPS = st.lists(
    st.tuples(
        st.floats(min_value=-10, max_value=1e6, allow_nan=False), st.integers(min_value=0, max_value=10**12)
    )
)


@given(st.floats(min_value=-1e9, max_value=1e9), STEPS)
def test_a_rate_is_a_finite_number_for_any_clock(began: float, steps: list[tuple[float, int]]) -> None:
    rate, now = Rate(began), began
    for passed, amount in steps:
        now += passed
        rate.count(amount, now)
        assert isfinite(rate.per_s(now))
        assert rate.per_s(now) >= 0


def test_a_rate_is_0_before_anything_was_counted_and_defined_before_time_has_passed() -> None:
    rate = Rate(7.0)
    assert rate.per_s(7.0) == 0
    rate.count(10, 7.0)
    assert rate.per_s(7.0) == pytest.approx(10_000, rel=1e-3)


@pytest.mark.parametrize("seconds", [1, 5, 60])
def test_a_steady_rate_is_reported_exactly_from_early_on(seconds: int) -> None:
    rate = Rate(0.0)
    for tick in range(1, seconds * 100 + 1):
        rate.count(10, tick / 100)
    assert rate.per_s(seconds) == pytest.approx(1_000, rel=0.01)


def test_a_rate_follows_a_change_within_seconds_and_falls_while_nothing_comes() -> None:
    rate = Rate(0.0)
    for tick in range(1, 6_001):
        rate.count(10 if tick <= 3_000 else 20, tick / 100)
    assert rate.per_s(60) == pytest.approx(2_000, rel=0.01)
    assert rate.per_s(60 + OVER_S) == pytest.approx(2_000 / 2.718, rel=0.01)
    assert rate.per_s(1e9) == 0


@given(st.integers(max_value=2**63), st.floats(min_value=0, max_value=1e300))
def test_an_estimate_is_finite_and_none_only_where_it_would_be_infinite(left: int, per_s: float) -> None:
    seconds = remaining_s(left, per_s)
    if left <= 0:
        assert seconds == 0
    elif seconds is None:
        assert per_s * REMAINING_S_MAX <= left
    else:
        assert 0 <= seconds <= REMAINING_S_MAX
        assert seconds * per_s == pytest.approx(left)


def test_no_progress_has_no_estimate() -> None:
    assert remaining_s(1, 0.0) is None
    assert remaining_s(1_000, 5e-324) is None
    assert remaining_s(1_000, 250.0) == 4.0
