"""Heartbeats and sessions: held until a rebalance begins, never beyond what the member can bear."""

from __future__ import annotations

from strandline.broker.core.groups.effects import EventKind
from strandline.errors import IllegalGeneration, RebalanceInProgress, UnknownMemberId
from tests.broker.core.groups.support.stage import SESSION_MS, Stage

SESSION_S = SESSION_MS / 1000


def test_a_heartbeat_is_held_until_its_time_is_over() -> None:
    stage = Stage()
    generation = stage.stable("a")
    held = stage.heartbeat("a", generation, wait_ms=3_000)
    stage.later(2.999)
    assert stage.waits(held)
    stage.later(0.001)
    assert stage.answers[held] is None


def test_a_heartbeat_that_does_not_want_to_wait_is_answered_at_once() -> None:
    stage = Stage()
    generation = stage.stable("a")
    assert stage.answers[stage.heartbeat("a", generation)] is None


def test_every_held_heartbeat_is_answered_the_moment_a_rebalance_begins() -> None:
    stage = Stage()
    generation = stage.stable("a", "b")
    held = [stage.heartbeat(member, generation, wait_ms=3_000) for member in "ab"]
    stage.enter("c")
    for token in held:
        assert "member c joined" in stage.answer(token, RebalanceInProgress).message


def test_a_session_restarts_at_the_arrival_and_at_the_answer_of_a_heartbeat() -> None:
    stage = Stage()
    generation = stage.stable("a")
    stage.later(SESSION_S - 1)
    stage.heartbeat("a", generation, wait_ms=4_000)
    stage.later(4 + SESSION_S - 0.001)
    assert stage.state == "Stable"
    stage.later(0.001)
    assert stage.state == "Empty"


def test_a_heartbeat_is_never_held_longer_than_half_of_the_session() -> None:
    """Even if the request asks for longer: the answer must find the member alive."""
    stage = Stage()
    generation = stage.stable("a")
    held = stage.heartbeat("a", generation, wait_ms=10 * SESSION_MS)
    stage.later(SESSION_S / 2)
    assert stage.answers[held] is None


def test_a_later_heartbeat_releases_the_one_that_is_held() -> None:
    stage = Stage()
    generation = stage.stable("a")
    first = stage.heartbeat("a", generation, wait_ms=3_000)
    stage.later(1)
    second = stage.heartbeat("a", generation, wait_ms=3_000)
    assert stage.answers[first] is None
    stage.later(2.5)
    assert stage.waits(second)
    third = stage.heartbeat("a", generation)
    assert stage.answers[second] is None
    assert stage.answers[third] is None
    stage.later(1)


def test_a_silent_member_is_removed_and_causes_a_rebalance() -> None:
    stage = Stage()
    generation = stage.stable("a", "b")
    stage.later(SESSION_S - 1)
    held = stage.heartbeat("b", generation, wait_ms=3_000)
    stage.later(1)
    message = stage.answer(held, RebalanceInProgress).message
    assert "member a was not heard of for 10000 ms" in message
    assert stage.answer(stage.heartbeat("a", generation), UnknownMemberId)
    left = [event for event in stage.events if event.kind is EventKind.MEMBER_LEFT]
    assert [event.member for event in left] == ["a"]


def test_a_member_may_beat_before_it_has_its_assignment() -> None:
    """CORRECTNESS G8: its heartbeats do not wait for what it prepares."""
    stage = Stage()
    generation = stage.stable("a", "b") + 1
    stage.join("a"), stage.join("b")
    assert stage.state == "CompletingRebalance"
    held = stage.heartbeat("b", generation, wait_ms=1_000)
    assert stage.waits(held)
    stage.later(1)
    assert stage.answers[held] is None


def test_heartbeats_are_fenced() -> None:
    """CORRECTNESS G1"""
    stage = Stage()
    generation = stage.stable("a", "b")
    assert stage.answer(stage.heartbeat("a", generation - 1), IllegalGeneration)
    assert stage.answer(stage.heartbeat("a", generation + 1), IllegalGeneration)
    assert stage.answer(stage.heartbeat("zed", generation), UnknownMemberId)
    assert Stage().heartbeat("a", 1) == "1"


def test_a_heartbeat_that_met_its_own_members_join_is_no_sign_of_a_lost_generation() -> None:
    """CORRECTNESS G4: it was under way when the generation began: nothing is lost."""
    stage = Stage()
    generation = stage.stable("a", "b")
    stage.writing = False
    stage.join("a"), stage.join("b")
    assert stage.answer(stage.heartbeat("b", generation), RebalanceInProgress)
    stage.written()
    assert stage.answer(stage.heartbeat("b", generation), IllegalGeneration)
