"""The exponents of a series say how a cost grows."""

from __future__ import annotations

from collections.abc import Mapping
from math import log

import pytest

from strandline_lab.bench.scale.curves import one_series
from strandline_lab.bench.scale.series import Dimension, Figure, Step, exponent_of_n_log_n, exponents

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


async def test_a_series_that_ends_early_shows_its_steps_and_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A part of a step has a limit of its own, which is not that of the step."""

    async def measure(size: int) -> Mapping[str, float]:
        if size > SIZES[0]:
            raise TimeoutError
        return {"cost": 7.0}

    await one_series(Dimension("things", "Things", SIZES, {"cost": Figure("cost")}, measure), None)
    printed = capsys.readouterr().out
    assert "100 things had a part that took too long: the series ends here" in printed
    assert "| cost | 7.00 |" in printed
