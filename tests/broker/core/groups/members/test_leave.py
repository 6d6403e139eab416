"""Leaving, by member and by instance (KIP-345)."""

from __future__ import annotations

from dataclasses import replace

from strandline.errors import FencedInstanceId, InvalidRequest, RebalanceInProgress, UnknownMemberId
from strandline.vocabulary.groups import Joined, LeaveGroup, LeavingMember, LeftMember
from tests.broker.core.groups.support.stage import GROUP, LIMITS, Stage


def test_a_member_that_leaves_causes_one_rebalance_and_is_unknown_from_then_on() -> None:
    stage = Stage()
    generation = stage.stable("a", "b")
    held = stage.heartbeat("b", generation, wait_ms=1_000)
    assert stage.leave("a") == (LeftMember("a"),)
    assert stage.answer(held, RebalanceInProgress)
    assert stage.answer(stage.heartbeat("a", generation), UnknownMemberId)
    assert stage.answer(stage.join("b"), Joined).generation == generation + 1


def test_concurrent_leaves_cause_one_rebalance() -> None:
    stage = Stage()
    stage.stable("a", "b", "c", "d")
    assert [left.error for left in stage.leave("a", "b", "c")] == [None] * 3
    assert stage.describe().reason == "member a left, and 2 more"
    assert stage.answer(stage.join("d"), Joined).generation == 5


def test_each_leaving_member_has_its_own_answer() -> None:
    stage = Stage()
    stage.stable("a", "b")
    known, unknown = stage.leave("a", "zed")
    assert known == LeftMember("a")
    assert isinstance(unknown.error, UnknownMemberId)


def test_leaving_an_unknown_group_or_with_too_many_members_is_refused() -> None:
    stage = Stage(replace(LIMITS, group_members_max=2))
    request = LeaveGroup(GROUP, (LeavingMember("a"),) * 3)
    token = stage.ask(request)
    assert stage.answer(token, UnknownMemberId)
    stage.stable("a")
    token = stage.ask(request)
    assert stage.answer(token, InvalidRequest).limit == 2


def test_the_last_to_leave_leaves_an_empty_group_with_a_generation_of_its_own() -> None:
    """CORRECTNESS G2: the numbers continue: no old claim looks younger than a new one."""
    stage = Stage()
    generation = stage.stable("a")
    stage.leave("a")
    described = stage.describe()
    assert (described.state, described.generation) == ("Empty", generation + 1)
    assert (described.protocol, described.leader, described.protocol_type) == ("", "", "consumer")
    assert stage.answer(stage.enter("b"), Joined).generation == generation + 2


def test_a_pending_member_that_leaves_is_not_awaited() -> None:
    stage = Stage()
    stage.stable("a")
    stage.join("", "b")
    a = stage.join("a")
    assert stage.waits(a)
    assert stage.leave("b") == (LeftMember("b"),)
    assert stage.answer(a, Joined).generation == 2


def test_a_new_group_is_forgotten_when_its_only_pending_member_leaves() -> None:
    stage = Stage()
    stage.join("", "b")
    stage.leave("b")
    assert "not known" in stage.describe_error().message


def test_a_member_that_waits_and_leaves_is_answered() -> None:
    stage = Stage()
    generation = stage.stable("a", "b")
    stage.join("a")
    b = stage.join("b")
    assert stage.answer(b, Joined)
    waiting = stage.sync("b", generation + 1)
    beating = stage.heartbeat("b", generation + 1, wait_ms=1_000)
    stage.leave("b")
    assert "is out of group" in stage.answer(waiting, UnknownMemberId).message
    assert stage.answer(beating, UnknownMemberId)
    joining = stage.join("a")
    assert stage.answer(joining, Joined)


def test_the_last_of_the_barrier_that_leaves_completes_it() -> None:
    stage = Stage()
    stage.stable("a", "b")
    a = stage.join("a")
    assert stage.waits(a)
    stage.leave("b")
    assert stage.answer(a, Joined).generation == 3


def test_a_static_member_leaves_by_its_instance_and_not_by_its_process() -> None:
    """KIP-345: a process that ends will be back."""
    stage = Stage()
    stage.sync_all({"s": stage.join("", "s", instance="one")})
    assert stage.leave("s") == (LeftMember("s"),)
    assert stage.state == "Stable"
    (wrong,) = stage.leave(LeavingMember("other", instance="one"))
    assert isinstance(wrong.error, FencedInstanceId)
    (unknown,) = stage.leave(LeavingMember("", instance="two"))
    assert isinstance(unknown.error, UnknownMemberId)
    assert stage.leave(LeavingMember("", instance="one")) == (LeftMember("s"),)
    assert stage.state == "Empty"
