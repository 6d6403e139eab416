"""The exponents of a series say how a cost grows."""

from __future__ import annotations

from math import log

import pytest

from bench.scale.series import Step, exponent_of_n_log_n, exponents

SIZES = (10, 100, 1_000)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_the_power(power: float) -> None:
    steps = [Step(size, {"cost": 3 * size**power}) for size in SIZES]
    assert exponents(steps, "cost") == pytest.approx([power, power])


def test_the_bar_is_the_exponent_of_n_log_n() -> None:
    steps = [Step(size, {"cost": size * log(size)}) for size in SIZES]
    bars = [exponent_of_n_log_n(10, 100), exponent_of_n_log_n(100, 1_000)]
    assert exponents(steps, "cost") == pytest.approx(bars)


def test_a_cost_of_nothing_has_no_exponent() -> None:
    steps = [Step(10, {"cost": 0.0}), Step(100, {"cost": 1.0}), Step(1_000, {"cost": 10.0})]
    assert exponents(steps, "cost") == [None, pytest.approx(1.0)]
