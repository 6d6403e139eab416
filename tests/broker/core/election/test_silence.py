"""Who has to agree before a leader is suspected for its silence, and how often a wrong suspicion may come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.election.silence import (
    FORGIVEN_S,
    TRUSTED_S,
    TRUSTED_S_MAX,
    Report,
    Trust,
    agreed,
)
from strandline.ids import BrokerEpoch

BOUND_S, SLACK_S = 0.6, 0.2
LIFE = BrokerEpoch(10)
SILENT, HEARD, CANNOT_SAY = Report(0.7), Report(0.1), Report(None)
REPORTS = st.lists(st.sampled_from([SILENT, HEARD, CANNOT_SAY, None]), max_size=9)


def _agreed(*reports: Report | None, own_s: float = 0.7) -> bool:
    return agreed(own_s, reports, BOUND_S, SLACK_S)


def test_another_broker_that_hears_nothing_either_is_enough_where_no_third_one_judges() -> None:
    """CORRECTNESS E19."""
    assert _agreed(SILENT)
    assert _agreed(SILENT, CANNOT_SAY)
    assert _agreed(Report(BOUND_S - SLACK_S)), "its last message may have come a beat later"


def test_no_broker_suspects_a_leader_by_itself() -> None:
    """CORRECTNESS E19: it may be cut off, and of two brokers neither can tell."""
    assert not _agreed()
    assert not _agreed(CANNOT_SAY, CANNOT_SAY)
    assert not _agreed(HEARD)
    assert not _agreed(SILENT, own_s=0.5)


def test_a_broker_that_cannot_be_asked_counts_as_one_that_hears_it() -> None:
    """CORRECTNESS E19: who is cut off from half of the brokers deposes none of them."""
    assert not _agreed(None)
    assert not _agreed(SILENT, None, None)
    assert _agreed(SILENT, SILENT, None)


@given(REPORTS)
def test_most_of_those_that_can_judge_have_to_agree(reports: list[Report | None]) -> None:
    """CORRECTNESS E19: for any answers of any number of brokers."""
    against = reports.count(HEARD) + reports.count(None)
    in_favour = 1 + reports.count(SILENT)
    assert _agreed(*reports) == (in_favour >= 2 and in_favour > against)


def test_a_broker_that_was_suspected_wrongly_is_trusted_longer_each_time() -> None:
    """CORRECTNESS E19: so the elections of a time under load are bounded by the logarithm of its length."""
    trust, now, pauses = Trust(), 0.0, []
    for _ in range(9):
        trust.wronged(LIFE, now)
        heard_at = now
        while not trust.may_suspect(LIFE, heard_at):
            heard_at += 0.5
        pauses.append(heard_at - now)
        now = heard_at + 0.5
    assert pauses[:3] == [TRUSTED_S, 2 * TRUSTED_S, 4 * TRUSTED_S]
    assert max(pauses) == TRUSTED_S_MAX


def test_what_was_heard_before_the_time_of_trust_does_not_end_it() -> None:
    trust = Trust()
    assert trust.may_suspect(LIFE, 0.0)
    trust.wronged(LIFE, 10.0)
    assert not trust.may_suspect(LIFE, 10.0 + TRUSTED_S / 2)
    assert trust.may_suspect(LIFE, 10.0 + TRUSTED_S)


def test_a_wrong_suspicion_is_forgiven_after_a_while_and_forgotten_with_the_life() -> None:
    trust = Trust()
    trust.wronged(LIFE, 0.0)
    trust.wronged(LIFE, FORGIVEN_S)
    assert trust.may_suspect(LIFE, FORGIVEN_S + TRUSTED_S)
    trust.registered([])
    assert trust.may_suspect(LIFE, FORGIVEN_S)
