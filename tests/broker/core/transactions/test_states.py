"""The table of a transactional id's states, from each to each."""

from __future__ import annotations

import pytest

from strandline.broker.core.transactions.states import LEGAL, transition
from strandline.states import IllegalTransition
from strandline.vocabulary.transactions import TransactionState as S

IDLE_NEXT = {S.EMPTY, S.ONGOING, S.COMPLETE_ABORT, S.DEAD}
NEXT = {
    S.EMPTY: IDLE_NEXT,
    S.ONGOING: {S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.DEAD},
    S.PREPARE_COMMIT: {S.COMPLETE_COMMIT, S.DEAD},
    S.PREPARE_ABORT: {S.COMPLETE_ABORT, S.DEAD},
    S.COMPLETE_COMMIT: IDLE_NEXT,
    S.COMPLETE_ABORT: IDLE_NEXT,
    S.DEAD: set(),
}


@pytest.mark.parametrize("current", S)
@pytest.mark.parametrize("wanted", S)
def test_each_transition(current: S, wanted: S) -> None:
    if wanted in NEXT[current]:
        assert transition("id", current, wanted) is wanted
    else:
        with pytest.raises(IllegalTransition, match=f"{current.value} → {wanted.value}"):
            transition("id", current, wanted)


def test_the_table_has_every_state() -> None:
    assert set(LEGAL) == set(S)
