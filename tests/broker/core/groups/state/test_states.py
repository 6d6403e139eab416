"""The table of group states: the full from-to matrix."""

from __future__ import annotations

from itertools import product

import pytest

from strandline.broker.core.groups.state.states import GroupState, transition
from strandline.states import IllegalTransition

EXPECTED = {
    "Empty": {"PreparingRebalance", "Dead"},
    "PreparingRebalance": {"CompletingRebalance", "Empty", "Dead"},
    "CompletingRebalance": {"Stable", "PreparingRebalance", "Dead"},
    "Stable": {"PreparingRebalance", "Dead"},
    "Dead": set(),
}


@pytest.mark.parametrize(("current", "wanted"), list(product(GroupState, GroupState)))
def test_only_the_transitions_of_the_table_are_legal(current: GroupState, wanted: GroupState) -> None:
    """Every one of the 25 pairs is either allowed or fails with the values."""
    if wanted.value in EXPECTED[current.value]:
        assert transition("g", current, wanted) is wanted
    else:
        with pytest.raises(IllegalTransition, match=f"group g: {current.value} → {wanted.value}"):
            transition("g", current, wanted)
