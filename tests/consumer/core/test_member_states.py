"""The states of a member of a group, and every pair of them (`strandline.consumer.core.member_states`)."""

from __future__ import annotations

from itertools import product

import pytest

from strandline.consumer.core.member_states import State, transition
from strandline.states import IllegalTransition

EXPECTED = {
    "unjoined": {"joining", "left"},
    "releasing": {"releasing", "joining", "stable", "overdue", "left", "fatal"},
    "joining": {"joining", "assigning", "syncing", "releasing", "overdue", "left", "fatal"},
    "assigning": {"syncing", "joining", "releasing", "overdue", "left", "fatal"},
    "syncing": {"stable", "joining", "releasing", "overdue", "left", "fatal"},
    "stable": {"joining", "releasing", "overdue", "left", "fatal"},
    "overdue": {"joining", "left"},
    "left": {"joining"},
    "fatal": set(),
}


@pytest.mark.parametrize(("current", "wanted"), list(product(State, State)))
def test_only_the_transitions_of_the_table_are_legal(current: State, wanted: State) -> None:
    """Every one of the 81 pairs is either allowed or fails with the values."""
    if wanted.value in EXPECTED[current.value]:
        assert transition("a", current, wanted) is wanted
    else:
        with pytest.raises(IllegalTransition, match=f"a: {current.value} → {wanted.value}"):
            transition("a", current, wanted)
