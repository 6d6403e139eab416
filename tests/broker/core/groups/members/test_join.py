"""Joining: member ids, the barrier, the leader, the protocol (KIP-394, KIP-800; G1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.groups.effects import EventKind
from strandline.errors import (
    CoordinatorNotAvailable,
    InconsistentGroupProtocol,
    MessageTooLarge,
    RebalanceInProgress,
    StrandlineError,
    UnknownMemberId,
)
from strandline.vocabulary.groups import GroupMember, GroupProtocol, Joined, LeavingMember, MemberIdGiven
from tests.broker.core.groups.support.stage import LIMITS, RANGE, REBALANCE_MS, SESSION_MS, Stage

BOTH = (GroupProtocol("sticky", b"s"), GroupProtocol("range", b"r"))


# --- ids ----------------------------------------------------------------------------------------


def test_a_new_member_gets_an_id_to_join_with_and_is_no_member_yet() -> None:
    """KIP-394: a join whose answer is lost leaves no member behind."""
    stage = Stage()
    assert stage.answer(stage.join("", "a"), MemberIdGiven) == MemberIdGiven("a")
    assert stage.describe().members == ()
    assert stage.state == "Empty"
    assert stage.answer(stage.join("a"), Joined).member == "a"


def test_an_unused_id_expires_and_leaves_no_trace() -> None:
    """KIP-394"""
    stage = Stage()
    stage.join("", "a")
    stage.later(SESSION_MS / 1000)
    assert "not known" in stage.describe_error().message
    assert stage.answer(stage.join("a"), UnknownMemberId)


def test_an_id_that_the_group_did_not_give_is_refused() -> None:
    stage = Stage()
    stage.stable("a")
    assert "no member 'stranger'" in stage.answer(stage.join("stranger"), UnknownMemberId).message


def test_a_rebalance_waits_for_members_that_are_about_to_join() -> None:
    """KIP-394: a member that has its id makes this generation, not one more."""
    stage = Stage()
    stage.stable("a", "b")
    c = stage.enter("c")
    stage.join("", "d")
    stage.join("a"), stage.join("b")
    assert stage.waits(c)
    d = stage.join("d")
    assert stage.answer(c, Joined).generation == stage.answer(d, Joined).generation == 3


def test_a_pending_member_is_awaited_no_longer_than_its_session() -> None:
    stage = Stage()
    stage.stable("a")
    stage.join("", "ghost")
    b, a = stage.enter("b"), stage.join("a")
    assert stage.waits(a)
    stage.later(SESSION_MS / 1000)
    assert stage.answer(a, Joined).generation == stage.answer(b, Joined).generation == 2


# --- the barrier --------------------------------------------------------------------------------


def test_a_generation_begins_when_all_known_members_have_joined_again() -> None:
    stage = Stage()
    stage.stable("a", "b")
    c = stage.enter("c")
    assert stage.state == "PreparingRebalance"
    a = stage.join("a")
    assert stage.waits(a)
    b = stage.join("b")
    answered = [stage.answer(token, Joined) for token in (a, b, c)]
    assert {joined.generation for joined in answered} == {3}
    assert {joined.leader for joined in answered} == {"a"}
    assert [member.member for member in answered[0].members] == ["a", "b", "c"]
    assert answered[1].members == answered[2].members == ()


def test_a_member_that_has_not_joined_by_the_rebalance_timeout_is_removed() -> None:
    """The longest of the members' timeouts; a member that only beats is out too."""
    stage = Stage()
    stage.stable("a", "b", rebalance_timeout_ms=5_000)
    c = stage.enter("c", rebalance_timeout_ms=8_000)
    a = stage.join("a", rebalance_timeout_ms=5_000)
    stage.later(7.9)
    assert stage.answer(stage.heartbeat("b", 2), RebalanceInProgress)
    assert stage.waits(a)
    stage.later(0.1)
    assert stage.answer(a, Joined).generation == stage.answer(c, Joined).generation == 3
    assert [member.member for member in stage.describe().members] == ["a", "c"]
    assert stage.answer(stage.heartbeat("b", 2), UnknownMemberId)
    left = [event for event in stage.events if event.kind is EventKind.MEMBER_LEFT]
    assert [(event.member, event.reason) for event in left] == [("b", "did not join again within 8000 ms")]


def test_a_member_that_waits_in_the_barrier_does_not_expire() -> None:
    """It cannot beat: the silence is the coordinator's."""
    stage = Stage()
    stage.stable("a", "b")
    a = stage.join("a", protocols=(GroupProtocol("range", b"more"),))
    for _ in range(5):
        stage.later(SESSION_MS / 1000 - 1)
        stage.heartbeat("b", 2)
    stage.join("b")
    assert stage.answer(a, Joined).generation == 3
    stage.later(SESSION_MS / 1000 - 0.001)
    assert len(stage.describe().members) == 2


def test_an_empty_group_waits_for_more_members_before_its_first_generation() -> None:
    stage = Stage(replace(LIMITS, group_initial_rebalance_delay_ms=300))
    a = stage.enter("a")
    stage.later(0.2)
    b = stage.enter("b")
    stage.later(0.1)
    assert stage.waits(a), "b came: once more the delay"
    stage.later(0.3)
    assert stage.answer(a, Joined).generation == stage.answer(b, Joined).generation == 1


def test_an_empty_group_does_not_wait_beyond_the_rebalance_timeout() -> None:
    stage = Stage(replace(LIMITS, group_initial_rebalance_delay_ms=300))
    a = stage.enter("a", rebalance_timeout_ms=1_000)
    for number in range(7):
        stage.later(0.125)
        stage.enter(f"m{number}", rebalance_timeout_ms=1_000)
    assert stage.waits(a)
    stage.later(0.125)
    assert len(stage.answer(a, Joined).members) == 8


def test_a_join_that_is_sent_again_takes_the_place_of_the_one_that_waits() -> None:
    """No call is left without an answer."""
    stage = Stage()
    stage.stable("a", "b")
    first = stage.join("a", protocols=(GroupProtocol("range", b"more"),))
    second = stage.join("a", protocols=(GroupProtocol("range", b"more"),))
    assert stage.answer(first, RebalanceInProgress)
    stage.join("b")
    assert stage.answer(second, Joined).generation == 3


def test_joins_while_a_generation_is_written_make_one_more_with_all() -> None:
    """No member learned of the interrupted one; a hundred newcomers cost one generation together."""
    stage = Stage()
    stage.writing = False
    first = stage.enter("m0")
    later = [stage.enter(f"m{number}") for number in range(1, 101)]
    assert len(stage.wanted) == 1
    stage.written()
    assert stage.waits(first)
    stage.written()
    assert {stage.answer(token, Joined).generation for token in (first, *later)} == {2}
    assert stage.wanted == []


def test_a_barrier_that_is_over_while_the_log_is_slow_waits_for_the_log_only() -> None:
    """Generations begin one at a time, but that does not make the group wait for members that do not join."""
    stage = Stage()
    stage.stable("a")
    stage.writing = False
    b, a = stage.enter("b"), stage.join("a")
    stage.join("", "ghost", session_timeout_ms=1_800_000)
    c = stage.enter("c")
    stage.later(REBALANCE_MS / 1000)
    assert stage.waits(a) and len(stage.wanted) == 1
    stage.written()
    stage.written()
    assert {stage.answer(token, Joined).generation for token in (a, b, c)} == {3}


# --- leader, protocol, reason -------------------------------------------------------------------


def test_only_the_leader_gets_the_members_with_their_metadata() -> None:
    stage = Stage()
    stage.stable("a")
    b = stage.enter("b", protocols=(GroupProtocol("range", b"of b"),))
    a = stage.join("a")
    assert stage.answer(a, Joined).members == (GroupMember("a", b"topics"), GroupMember("b", b"of b"))
    assert stage.answer(b, Joined).members == ()


def test_a_lost_leader_is_followed_by_the_next_in_order() -> None:
    stage = Stage()
    stage.stable("a", "b", "c")
    assert stage.describe().leader == "a"
    stage.leave("a")
    c, b = stage.join("c"), stage.join("b")
    assert stage.answer(b, Joined).leader == stage.answer(c, Joined).leader == "b"


def test_the_protocol_is_the_one_with_most_votes_among_what_all_support() -> None:
    stage = Stage(replace(LIMITS, group_initial_rebalance_delay_ms=10))
    range_first = (BOTH[1], BOTH[0])
    tokens = [stage.enter(f"m{i}", protocols=p) for i, p in enumerate([BOTH, range_first, range_first])]
    stage.later(1)
    assert {stage.answer(token, Joined).protocol for token in tokens} == {"range"}


def test_equal_votes_are_decided_by_the_leader() -> None:
    stage = Stage(replace(LIMITS, group_initial_rebalance_delay_ms=10))
    tokens = [stage.enter("a", protocols=BOTH), stage.enter("b", protocols=(BOTH[1], BOTH[0]))]
    stage.later(1)
    assert {stage.answer(token, Joined).protocol for token in tokens} == {"sticky"}


def test_a_protocol_that_only_some_members_support_is_never_chosen() -> None:
    """KIP-429, upgrade: the group goes by what all know until the last member is new."""
    stage = Stage(replace(LIMITS, group_initial_rebalance_delay_ms=10))
    tokens = [stage.enter("a", protocols=BOTH), stage.enter("b", protocols=BOTH), stage.enter("c")]
    stage.later(1)
    assert {stage.answer(token, Joined).protocol for token in tokens} == {"range"}


def test_a_member_that_supports_nothing_in_common_is_refused_and_named() -> None:
    stage = Stage()
    stage.stable("a", "b")
    other = (GroupProtocol("mine", b""),)
    messages = [
        stage.answer(token, InconsistentGroupProtocol).message
        for token in (
            stage.join("", "c", protocols=other),
            stage.join("", "c", protocol_type="connect"),
            stage.join("b", protocols=other),
        )
    ]
    assert all("supports range" in message and "readers" in message for message in messages)
    assert "member 'b' supports mine" in messages[-1]
    assert (stage.state, stage.generation) == ("Stable", 2)


def test_a_member_alone_may_change_what_it_supports() -> None:
    stage = Stage()
    stage.stable("a")
    answered = stage.answer(stage.join("a", protocols=(GroupProtocol("mine", b""),)), Joined)
    assert (answered.generation, answered.protocol) == (2, "mine")


def test_an_empty_group_may_become_one_of_another_type() -> None:
    stage = Stage()
    stage.stable("a")
    stage.leave("a")
    stage.enter("w", protocol_type="connect")
    assert stage.describe().protocol_type == "connect"


def test_every_rebalance_has_its_reason_and_its_cause() -> None:
    """KIP-800: members that join, members that send heartbeats, and DescribeGroups receive both."""
    stage = Stage()
    stage.stable("a", "b")
    held = stage.heartbeat("b", 2, wait_ms=3_000)
    stage.leave(LeavingMember("a", reason="goes home\nnow"))
    why = "member a left: goes home now"
    assert why in stage.answer(held, RebalanceInProgress).message
    assert "caused by a" in stage.answer(held, RebalanceInProgress).message
    answered = stage.answer(stage.join("b"), Joined)
    assert (answered.reason, answered.caused_by) == (why, "a")
    described = stage.describe()
    assert (described.reason, described.caused_by) == (why, "a")
    started = [event for event in stage.events if event.kind is EventKind.REBALANCE_STARTED][-1]
    assert (started.reason, started.caused_by, started.generation) == (why, "a", 2)


# --- joining within a generation ----------------------------------------------------------------


def test_a_follower_that_joins_a_stable_group_with_nothing_new_gets_its_generation_back() -> None:
    """Its answer was lost: that is no reason to stop other members."""
    stage = Stage()
    stage.stable("a", "b")
    answered = stage.answer(stage.join("b"), Joined)
    assert (answered.generation, answered.leader, answered.members) == (2, "a", ())
    assert stage.state == "Stable"
    assert stage.answer(stage.sync("b", 2), bytes) == b"b"


def test_a_follower_with_something_new_or_a_leader_causes_a_rebalance() -> None:
    stage = Stage()
    stage.stable("a", "b")
    b = stage.join("b", protocols=(GroupProtocol("range", b"more topics"),), reason="subscription changed")
    assert stage.state == "PreparingRebalance"
    assert stage.describe().reason == "member b joined with changes: subscription changed"
    stage.sync_all({"a": stage.join("a"), "b": b})
    a = stage.join("a", reason="a topic has more partitions")
    assert stage.waits(a)
    assert stage.describe().reason == "leader a joined again: a topic has more partitions"


def test_a_join_that_is_repeated_before_the_assignment_gets_the_same_generation() -> None:
    stage = Stage()
    stage.stable("a")
    b, a = stage.enter("b"), stage.join("a")
    assert stage.answer(stage.join("b"), Joined) == stage.answer(b, Joined)
    assert stage.answer(stage.join("a"), Joined) == stage.answer(a, Joined)
    assert stage.state == "CompletingRebalance"


def test_a_change_before_the_assignment_breaks_the_generation_off() -> None:
    stage = Stage()
    stage.stable("a", "b", "c")
    b = stage.join("b", protocols=(GroupProtocol("range", b"1"),))
    stage.join("a"), stage.join("c")
    assert stage.answer(b, Joined).generation == 4
    waiting = stage.sync("c", 4)
    again = stage.join("b", protocols=(GroupProtocol("range", b"2"),))
    assert stage.answer(waiting, RebalanceInProgress)
    assert stage.waits(again)
    stage.join("a"), stage.join("c")
    assert stage.answer(again, Joined).generation == 5


def test_an_assignment_ends_with_its_generation() -> None:
    stage = Stage()
    generation = stage.stable("a", "b")
    b = stage.join("b", protocols=(GroupProtocol("range", b"more"),))
    assert [member.assignment for member in stage.describe().members] == [b"a", b"b"]
    stage.join("a")
    assert stage.answer(b, Joined).generation == generation + 1
    assert [member.assignment for member in stage.describe().members] == [b"", b""]


# --- writing ------------------------------------------------------------------------------------


def test_no_member_learns_of_a_generation_that_is_not_written() -> None:
    """CORRECTNESS G13: the next coordinator would announce a generation that only this one knew again, with
    other members."""
    stage = Stage()
    stage.writing = False
    a = stage.enter("a")
    assert stage.waits(a)
    stage.written()
    assert stage.answer(a, Joined).generation == 1


@pytest.mark.parametrize("error", [CoordinatorNotAvailable("x"), MessageTooLarge("600 KB")])
def test_a_generation_that_cannot_be_written_is_an_error_and_its_number_is_never_used_again(
    error: StrandlineError,
) -> None:
    """CORRECTNESS G12: it may be in the log after all."""
    stage = Stage()
    stage.stable("a")
    stage.writing = False
    b, a = stage.enter("b"), stage.join("a")
    stage.failed(error)
    assert stage.answer(a, type(error))
    assert stage.answer(b, type(error))
    assert stage.state == "PreparingRebalance"
    b, a = stage.join("b"), stage.join("a")
    stage.written()
    assert stage.answer(a, Joined).generation == stage.answer(b, Joined).generation == 3


def test_members_and_protocols_that_never_agree_leave_the_group_as_it_was() -> None:
    stage = Stage()
    generation = stage.stable("a")
    before = stage.describe()
    stage.join("", "b", protocols=())
    stage.join("", "b", protocol_type="")
    stage.join("", "b", session_timeout_ms=1)
    stage.join("", "b", protocols=RANGE * 2)
    assert stage.describe() == before
    assert stage.generation == generation
    assert stage.core.next_deadline() is not None
    stage.later(REBALANCE_MS / 1000)
    assert stage.state == "Empty"
