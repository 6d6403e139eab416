"""Numbers on the command line."""

from __future__ import annotations

import click
import pytest

from strandline.cli.shell.numbers import FiniteRange


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-inf", "1e999", "-1", "10.5", "ten", ""])
def test_a_number_that_is_not_finite_or_out_of_range_is_refused(text: str) -> None:
    """CONTRIBUTING 7: a wait of "nan" seconds would be none, or forever."""
    with pytest.raises(click.BadParameter):
        FiniteRange(min=0, max=10).convert(text, None, None)


def test_a_finite_number_is_accepted() -> None:
    assert FiniteRange(min=0).convert("2.5", None, None) == 2.5
