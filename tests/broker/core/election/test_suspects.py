"""Suspicions end, and suspects are probed until they do (docs/understand/replication.md, Election)."""

from __future__ import annotations

import pytest

from strandline.broker.core.election.suspects import PROBE_AGAIN_S, PROBE_AGAIN_S_MAX, Cause, Suspects
from strandline.ids import BrokerEpoch

ONE, OTHER = BrokerEpoch(10), BrokerEpoch(20)


def test_a_suspect_is_probed_again_at_a_pace_that_slows_down_to_a_bound() -> None:
    """CORRECTNESS H10: no suspicion lasts for lack of a probe."""
    suspects = Suspects()
    assert suspects.refused(ONE, 0.0)
    assert suspects.due(0.0) == []
    pauses, before = [], 0.0
    for _ in range(8):
        due = suspects.next_due()
        assert due is not None
        pauses.append(round(due - before, 3))
        before = due
        assert suspects.due(due) == [ONE]
        assert suspects.due(due) == []
    assert pauses[:4] == [PROBE_AGAIN_S, 2 * PROBE_AGAIN_S, 4 * PROBE_AGAIN_S, 8 * PROBE_AGAIN_S]
    assert max(pauses) == pauses[-1] == PROBE_AGAIN_S_MAX


def test_a_refusal_that_is_known_is_no_news_and_does_not_change_the_pace() -> None:
    suspects = Suspects()
    suspects.refused(ONE, 0.0)
    assert not suspects.refused(ONE, PROBE_AGAIN_S / 2)
    assert suspects.due(PROBE_AGAIN_S) == [ONE]


@pytest.mark.parametrize("how", ["heard", "registration gone"])
def test_an_answer_or_the_end_of_the_registration_ends_a_suspicion(how: str) -> None:
    suspects = Suspects()
    suspects.refused(ONE, 0.0)
    suspects.refused(OTHER, 0.0)
    if how == "heard":
        assert suspects.reached(ONE)
        assert not suspects.reached(ONE)
    else:
        suspects.registered([OTHER])
    assert ONE not in suspects
    assert suspects.lives == {OTHER}
    assert suspects.due(1.0) == [OTHER]


def test_suspicions_are_counted_by_their_cause_and_the_wrong_ones_again() -> None:
    """CORRECTNESS E19: a sign of life says that a suspicion was wrong; the end of a registration does not."""
    suspects = Suspects()
    assert suspects.silent(ONE, 0.0)
    assert not suspects.silent(ONE, 0.1)
    assert suspects.refused(OTHER, 0.0)
    assert suspects.reached(ONE) is Cause.SILENT
    suspects.registered([])
    assert suspects.begun == {Cause.SILENT: 1, Cause.REFUSED: 1}
    assert suspects.wrong == {Cause.SILENT: 1}


def test_a_refusal_is_the_stronger_cause() -> None:
    """Only a message ends a suspicion for silence; the port that is closed has to answer."""
    suspects = Suspects()
    suspects.silent(ONE, 0.0)
    assert not suspects.refused(ONE, 0.1)
    assert suspects.cause(ONE) is Cause.REFUSED
    assert not suspects.silent(ONE, 0.2)
    assert suspects.cause(ONE) is Cause.REFUSED
