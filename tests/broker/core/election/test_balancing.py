"""Election of a better leader: checkLoadBalancing of Kafka's design V3 as a function of a leader's
knowledge."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.election.balancing import LedPartition, obstacle, to_balance
from strandline.ids import BrokerEpoch, BrokerId, Offset, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.metadata import Endpoint, IsrMember, Registration

KEY = PartitionKey(TopicId("0" * 32), PartitionId(0))
FIRST, ME, THIRD = AR = BrokerId(1), BrokerId(2), BrokerId(3)
LIVE = {b: Registration(Endpoint(b, "h", 1), BrokerEpoch(b * 10)) for b in AR}
NOW, GUARD_S = 100.0, 30.0


def member(broker: int, *, life: int | None = None) -> IsrMember:
    return IsrMember(BrokerId(broker), BrokerEpoch(broker * 10 if life is None else life))


ABLE = LedPartition(
    KEY,
    ME,
    AR,
    in_sync_since={member(1): NOW - GUARD_S, member(2): 0.0, member(3): 0.0},
    ends={FIRST: Offset(7), THIRD: Offset(7)},
    high_watermark=Offset(7),
    reassigning=False,
)
"""Broker 2 leads, and broker 1 may have it back."""


def balanced(standing: LedPartition, **given: object) -> list[tuple[PartitionKey, BrokerId]]:
    arguments = {"live": LIVE, "drained": frozenset(), "now": NOW, "in_sync_s": GUARD_S, **given}
    return to_balance([standing], **arguments)  # type: ignore[arg-type]  # each call says what it changes


def test_the_preferred_replica_leads_again_when_it_was_in_sync_for_a_while() -> None:
    """Kafka's design V3, checkLoadBalancing: the leader is not the preferred one, and that one is in
    the ISR."""
    assert balanced(ABLE) == [(KEY, FIRST)]
    assert balanced(replace(ABLE, assigned=(ME, FIRST, THIRD))) == []


@pytest.mark.parametrize(
    "unable",
    [
        {"in_sync_since": {member(1): NOW - GUARD_S + 0.1, member(2): 0.0}},  # it comes and goes
        {"in_sync_since": {member(2): 0.0, member(3): 0.0}},  # it is catching up
        {"in_sync_since": {member(1, life=9): 0.0, member(2): 0.0}},  # another life is in the ISR (I6)
        {"ends": {FIRST: Offset(6)}},
        {"ends": {}},  # no position reported in this epoch yet
        {"reassigning": True},
        {"assigned": ()},  # it is not known yet
    ],
)
def test_a_broker_that_may_not_lead_yet_is_not_named(unable: dict[str, object]) -> None:
    """CORRECTNESS I1, I6: whom a handover names has everything; and it stays longer than it flaps."""
    assert balanced(replace(ABLE, **unable)) == []  # type: ignore[arg-type]  # fields by name


def test_no_leader_hands_over_to_a_broker_that_goes_or_is_gone() -> None:
    """CORRECTNESS I7."""
    leaving = {**LIVE, FIRST: replace(LIVE[FIRST], shutting_down=True)}
    assert balanced(ABLE, live=leaving) == []
    assert balanced(ABLE, live={ME: LIVE[ME], THIRD: LIVE[THIRD]}) == []
    assert balanced(ABLE, drained=frozenset({FIRST})) == []


@pytest.mark.parametrize(
    ("to", "words"), [(2, "leads already"), (3, None), (4, "not alive")], ids=["itself", "able", "unknown"]
)
def test_handover_reports_the_obstacle(to: int, words: str | None) -> None:
    """On demand any member of the ISR may be named, however short it is in it."""
    fresh = replace(ABLE, in_sync_since=dict.fromkeys(map(member, AR), NOW))
    reason = obstacle(fresh, BrokerId(to), LIVE)
    assert reason is None if words is None else reason is not None and words in reason


@given(
    in_sync=st.sets(st.sampled_from(AR)),
    alive=st.sets(st.sampled_from(AR)),
    leaving=st.sets(st.sampled_from(AR)),
    drained=st.sets(st.sampled_from(AR)),
    since=st.floats(0, NOW),
    order=st.permutations(AR),
)
def test_every_chosen_broker_is_the_first_that_may_lead(
    in_sync: set[BrokerId],
    alive: set[BrokerId],
    leaving: set[BrokerId],
    drained: set[BrokerId],
    since: float,
    order: list[BrokerId],
) -> None:
    """Over every combination; and nothing is chosen that the leader already is."""
    live = {b: replace(LIVE[b], shutting_down=b in leaving) for b in alive | {ME}}
    standing = replace(
        ABLE,
        assigned=tuple(order),
        in_sync_since={member(b): since for b in in_sync | {ME}},
    )
    chosen = balanced(standing, live=live, drained=frozenset(drained))
    first = order[0]
    able = first != ME and first in in_sync & alive - leaving - drained and NOW - since >= GUARD_S
    assert chosen == ([(KEY, first)] if able else [])
