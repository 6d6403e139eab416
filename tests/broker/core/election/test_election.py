"""Decides which replica stands, follows or waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.election.election import (
    FIRST_ELECTION_STEPS,
    RANK_WAIT_S_MAX,
    Ballot,
    Decision,
    Follow,
    KeepLeading,
    Stand,
    Wait,
    claim,
    decide,
    is_backed,
    others_after,
    successor,
    wait_s,
)
from strandline.ids import NO_BROKER, NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch
from strandline.vocabulary.metadata import Endpoint, IsrMember, PartitionState, Registration

AR = (BrokerId(1), BrokerId(2), BrokerId(3))


def life(broker: int) -> BrokerEpoch:
    return BrokerEpoch(broker * 10)


def members(*brokers: int) -> tuple[IsrMember, ...]:
    return tuple(IsrMember(BrokerId(b), life(b)) for b in brokers)


def alive(brokers: Iterable[int], *, leaving: Iterable[int] = ()) -> dict[BrokerId, Registration]:
    return {BrokerId(b): Registration(Endpoint(b, "h", 1), life(b), b in tuple(leaving)) for b in brokers}


def led_by(leader: int, *isr: int, epoch: int = 5) -> PartitionState:
    return PartitionState(BrokerId(leader), LeaderEpoch(epoch), members(*isr))


def vote(
    me: int,
    state: PartitionState,
    live: Iterable[int],
    *,
    suspects: Iterable[int] = (),
    lives: Iterable[int] | None = None,
    whole: bool = True,
    unclean: bool = False,
    handed_over: bool = False,
    leads: int = NO_EPOCH,
    min_insync: int = 1,
) -> Decision:
    return decide(
        Ballot(
            AR,
            state,
            alive(live),
            frozenset(map(life, suspects)),
            BrokerId(me),
            frozenset({life(me)} if lives is None else map(BrokerEpoch, lives)),
            whole,
            unclean,
            LeaderEpoch(leads),
            handed_over,
            min_insync=min_insync,
        )
    )


def test_a_leader_that_stands_is_followed() -> None:
    assert vote(2, led_by(1, 1, 2, 3), [1, 2, 3]) == Follow(BrokerId(1), LeaderEpoch(5))


def test_a_leader_that_hears_of_its_own_vacancy_leads_on() -> None:
    """The notice of a handover may come when the election that it is about is won already."""
    assert vote(1, led_by(1, 1, 2, 3), [1, 2, 3], leads=5, handed_over=True) == KeepLeading()


def test_the_first_live_member_in_replica_order_acts_at_once_the_others_later() -> None:
    """No herd."""
    state = led_by(1, 1, 2, 3)
    assert vote(2, state, [2, 3]) == Stand(0, unclean=False)
    assert vote(3, state, [2, 3]) == Stand(1, unclean=False)


def test_a_leader_that_refused_a_connection_counts_as_dead() -> None:
    """Refused or reset while the leader znode still stands."""
    state = led_by(1, 1, 2, 3)
    assert vote(2, state, [1, 2, 3], suspects=[1]) == Stand(0, unclean=False)
    assert vote(3, state, [1, 2, 3], suspects=[1]) == Stand(1, unclean=False)


@pytest.mark.parametrize("suspects", [(1,), (1, 3)])
def test_a_suspect_is_not_deposed_for_an_isr_below_the_bound(suspects: tuple[int, ...]) -> None:
    """CORRECTNESS H5, E1: the winner could not commit, and the suspect may be well. Once the suspect's
    session is over, candidates no longer wait."""
    isr = (1, 2, 3) if 3 in suspects else (1, 2)
    decision = vote(2, led_by(1, *isr), [1, 2, 3], suspects=suspects, min_insync=2)
    assert isinstance(decision, Wait) and "its session decides" in decision.reason
    assert vote(2, led_by(1, *isr), [2, 3], suspects=suspects, min_insync=2) == Stand(0, unclean=False)
    assert vote(2, led_by(1, 1, 2, 3), [1, 2, 3], suspects=[1], min_insync=2) == Stand(0, unclean=False)


def test_suspects_are_not_deposed_uncleanly() -> None:
    """CORRECTNESS E1: while it is registered it may have what would be lost."""
    assert isinstance(vote(3, led_by(1, 1), [1, 3], suspects=[1], unclean=True), Wait)
    assert vote(3, led_by(1, 1), [3], suspects=[1], unclean=True) == Stand(3, unclean=True)


def test_only_members_that_answer_back_a_claim() -> None:
    """CORRECTNESS E1: a broker that is cut off from its peers finds that out before it takes their
    partitions."""
    ballot = Ballot(
        AR, led_by(1, 1, 2, 3), alive([1, 2, 3]), {life(1)}, BrokerId(2), {life(2)}, True, False, min_insync=2
    )
    assert others_after(ballot) == [3]
    assert is_backed(ballot, {life(3)})
    assert not is_backed(ballot, {life(1)})
    assert not is_backed(replace(ballot, suspects=frozenset()), {life(3)}), "it was heard of meanwhile"


def test_another_life_of_the_leader_is_not_the_leader() -> None:
    """CORRECTNESS E4: a bounce faster than the session's expiry."""
    live = alive([2, 3]) | {BrokerId(1): Registration(Endpoint(1, "h", 1), BrokerEpoch(11))}
    ballot = Ballot(AR, led_by(1, 1, 2, 3), live, frozenset(), BrokerId(2), frozenset({life(2)}), True, False)
    assert decide(ballot) == Stand(0, unclean=False)


def test_outside_the_isr_no_replica_stands() -> None:
    """Outside the ISR no replica leads; the reason names those that could."""
    decision = vote(3, led_by(1, 1, 2), [3])
    assert decision == Wait("only [1, 2] were in sync and unclean election is off")


def test_a_member_whose_page_cache_was_lost_does_not_stand() -> None:
    """CORRECTNESS E2: the ISR entry is of a life whose tail this broker may have lost."""
    assert isinstance(vote(1, led_by(1, 1), [1], lives=[77]), Wait)


def test_a_member_that_has_lost_its_log_does_not_ask_for_itself_to_be_started() -> None:
    """It runs: what is missing is its disk."""
    waits = vote(1, led_by(1, 1), [1], lives=[77])
    assert isinstance(waits, Wait)
    assert waits.reason.startswith(
        "only [1] were in sync and unclean election is off; this broker, 1, is one of"
    )
    assert "its disk is another one, or its machine lost power" in waits.reason


def test_a_member_that_came_back_whole_stands() -> None:
    """CORRECTNESS E2: a clean restart, or a crash that the page cache survived, keeps earlier lives."""
    live = {BrokerId(1): Registration(Endpoint(1, "h", 1), BrokerEpoch(77))}
    ballot = Ballot(
        AR, led_by(1, 1), live, frozenset(), BrokerId(1), frozenset({BrokerEpoch(77), life(1)}), True, False
    )
    assert decide(ballot) == Stand(0, unclean=False)
    state = claim(ballot, LeaderEpoch(6), BrokerEpoch(77), unclean=False)
    assert state.isr == (IsrMember(BrokerId(1), BrokerEpoch(77)),)


def test_a_damaged_log_never_leads() -> None:
    """CORRECTNESS E15, even where unclean election is allowed."""
    assert isinstance(vote(2, led_by(1, 1, 2), [2], whole=False, unclean=True), Wait)


def test_unclean_candidates_wait_behind_every_candidate_that_loses_nothing() -> None:
    decision = vote(3, led_by(1, 1, 2), [2, 3], unclean=True)
    assert decision == Stand(len(AR) + 1, unclean=True)


def test_an_unclean_winner_starts_alone() -> None:
    ballot = Ballot(
        AR, led_by(1, 1, 2), alive([2, 3]), frozenset(), BrokerId(3), frozenset({life(3)}), True, True
    )
    assert claim(ballot, LeaderEpoch(9), life(3), unclean=True).isr == members(3)


def test_a_partition_that_was_never_led_may_be_begun_by_any_replica() -> None:
    state = PartitionState(NO_BROKER, NO_EPOCH, members(1))
    assert vote(3, state, [3]) == Stand(0, unclean=False)


def test_a_new_partition_waits_for_its_first_replica_to_start() -> None:
    """Of a thousand new partitions of three replicas 2,000 claims were refused, and others made leaders of
    replicas that were not the preferred ones: the first replicas were still being started."""
    state = PartitionState(NO_BROKER, NO_EPOCH, ())
    ranks = [vote(broker, state, [1, 2, 3]) for broker in (1, 2, 3)]
    assert ranks == [Stand(n * FIRST_ELECTION_STEPS, unclean=False) for n in range(3)]
    assert vote(2, state, [2, 3]) == Stand(0, unclean=False), "the first one is gone"


def test_a_handed_over_partition_is_taken_at_once_by_the_one_named() -> None:
    """A leader that gives up leadership notifies the next one."""
    state = PartitionState(NO_BROKER, LeaderEpoch(5), members(1, 2, 3))
    assert vote(3, state, [1, 2, 3], handed_over=True) == Stand(0, unclean=False)


def test_a_leadership_of_record_that_is_not_exercised_is_a_vacancy() -> None:
    """CORRECTNESS E7, E9: a claim whose reply was lost is never resumed, but taken up in a new epoch."""
    state = led_by(1, 1, 2)
    assert vote(1, state, [1, 2]) == Stand(0, unclean=False)
    assert vote(1, state, [1, 2], leads=5) == KeepLeading()


def test_the_winner_removes_the_dead_leader_in_the_same_write() -> None:
    """The old leader removed if dead, so that it can neither shrink the ISR nor commit."""
    ballot = Ballot(
        AR,
        led_by(1, 1, 2, 3),
        alive([1, 2, 3]),
        frozenset({life(1)}),
        BrokerId(2),
        frozenset({life(2)}),
        True,
        False,
    )
    assert claim(ballot, LeaderEpoch(6), life(2), unclean=False) == led_by(2, 2, 3, epoch=6)


def test_the_winner_removes_a_member_that_came_back_in_another_life() -> None:
    """CORRECTNESS E4, I6: its log may lack what it had when it joined; it has to catch up and join again."""
    again = {BrokerId(3): Registration(Endpoint(3, "h", 1), BrokerEpoch(31))}
    ballot = Ballot(
        AR,
        led_by(1, 1, 2, 3),
        alive([2]) | again,
        frozenset(),
        BrokerId(2),
        frozenset({life(2)}),
        True,
        False,
    )
    assert claim(ballot, LeaderEpoch(6), life(2), unclean=False) == led_by(2, 2, epoch=6)


@pytest.mark.parametrize(
    ("isr", "live", "leaving", "expected"),
    [
        ((1, 2, 3), (1, 2, 3), (), 2),
        ((1, 3), (1, 2, 3), (), 3),
        ((1, 2, 3), (1, 2, 3), (2,), 3),
        ((1,), (1, 2, 3), (), None),
    ],
)
def test_a_leader_names_the_next_live_member_that_stays(
    isr: tuple[int, ...], live: tuple[int, ...], leaving: tuple[int, ...], expected: int | None
) -> None:
    """CORRECTNESS I7: no leader hands over to a broker that is shutting down."""
    assert successor(led_by(1, *isr), AR, alive(live, leaving=leaving)) == expected


@pytest.mark.parametrize(
    ("drained", "leaving", "expected"), [((2,), (), 3), ((2, 3), (), 2), ((2,), (3,), 2), ((1,), (), 2)]
)
def test_a_drained_broker_is_named_only_if_there_is_no_other(
    drained: tuple[int, ...], leaving: tuple[int, ...], expected: int
) -> None:
    """A drain is a wish; a partition without a leader would be worse."""
    brokers = frozenset(map(BrokerId, drained))
    assert successor(led_by(1, 1, 2, 3), AR, alive([1, 2, 3], leaving=leaving), brokers) == expected


@pytest.mark.parametrize("handed_over", [False, True])
def test_a_broker_that_handed_over_stands_last_unless_it_is_asked_back(handed_over: bool) -> None:
    """Else the first of AR could never be asked to let another lead: it would be back before that one."""
    ballot = Ballot(
        AR,
        led_by(NO_BROKER, 1, 2, 3),
        alive([1, 2, 3]),
        frozenset(),
        BrokerId(1),
        frozenset({life(1)}),
        True,
        False,
        handed_over=handed_over,
        yielded=True,
    )
    decision = decide(ballot)
    assert isinstance(decision, Stand)
    others = [vote(me, ballot.state, {1, 2, 3}) for me in (2, 3)]
    ranks = [other.rank for other in others if isinstance(other, Stand)]
    assert decision.rank == 0 if handed_over else decision.rank > max(ranks)


@given(
    isr=st.sets(st.sampled_from([1, 2, 3]), min_size=1),
    live=st.sets(st.sampled_from([1, 2, 3])),
    leader=st.sampled_from([NO_BROKER, 1, 2, 3]),
)
def test_at_most_one_replica_acts_at_once_and_only_members_stand(
    isr: set[int], live: set[int], leader: int
) -> None:
    """Over every combination: one first candidate, all others wait their turn; never outside the ISR."""
    if leader != NO_BROKER:
        isr.add(leader)
    state = led_by(leader, *sorted(isr))
    decisions = {me: vote(me, state, live) for me in live if me != leader}
    standing = [d.rank for d in decisions.values() if isinstance(d, Stand)]
    assert len(standing) == len(set(standing))
    for me, decision in decisions.items():
        if isinstance(decision, Stand):
            assert me in isr
            assert not decision.unclean


def test_a_rank_waits_longer_if_much_is_vacant_and_never_for_long() -> None:
    assert wait_s(0, 0.15, 5_000) == 0
    assert wait_s(2, 0.15, 50) == pytest.approx(0.4)
    assert wait_s(FIRST_ELECTION_STEPS, 0.15, 1) == pytest.approx(3.02)
    assert wait_s(2 * FIRST_ELECTION_STEPS, 0.15, 5_000) == RANK_WAIT_S_MAX
