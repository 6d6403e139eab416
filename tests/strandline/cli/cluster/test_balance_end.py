"""When `cluster balance` ends with an error."""

from __future__ import annotations

import pytest

from strandline.cli.cluster.balance import fell_short
from strandline.vocabulary.admin import BalanceDescription
from strandline.vocabulary.metadata import BalanceState


@pytest.mark.parametrize(
    ("state", "waited", "short"),
    [
        (BalanceState.COMPLETED, True, False),
        (BalanceState.RUNNING, False, False),
        (BalanceState.PAUSED, False, False),
        (BalanceState.PAUSED, True, True),
        (BalanceState.CANCELLED, True, True),
    ],
)
def test_a_wait_that_ends_before_the_balance_is_no_success(
    state: BalanceState, waited: bool, short: bool
) -> None:
    """A script would go on as if the brokers were even."""
    assert fell_short(BalanceDescription(state), waited=waited) is short
