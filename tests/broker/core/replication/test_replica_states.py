"""The table of replica states: the full from-to matrix."""

from __future__ import annotations

from itertools import product

import pytest

from strandline.broker.core.replication.replica_states import LEGAL, ReplicaState, transition
from strandline.states import IllegalTransition

EXPECTED = {
    "absent": {"starting"},
    "starting": {"follower", "closing"},
    "follower": {"follower", "leader", "closing"},
    "leader": {"leader", "follower"},
    "closing": {"closed"},
    "closed": {"starting", "deleted"},
    "deleted": set(),
}


@pytest.mark.parametrize(("current", "wanted"), list(product(ReplicaState, ReplicaState)))
def test_only_the_transitions_of_the_table_are_legal(current: ReplicaState, wanted: ReplicaState) -> None:
    """Every one of the 49 pairs is either allowed or fails with the values."""
    if wanted.value in EXPECTED[current.value]:
        assert transition("t-0", current, wanted) is wanted
    else:
        with pytest.raises(IllegalTransition, match=f"t-0: {current.value} → {wanted.value}"):
            transition("t-0", current, wanted)


def test_a_leader_never_closes_without_stepping_down_first() -> None:
    assert ReplicaState.CLOSING not in LEGAL[ReplicaState.LEADER]
