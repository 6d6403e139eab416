"""Leaving, by member and by instance (KIP-345)."""

from __future__ import annotations

from dataclasses import replace

from strandline.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    InvalidRequest,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
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


def leaving(*members: str) -> LeaveGroup:
    return LeaveGroup(GROUP, tuple(map(LeavingMember, members)))


def test_the_next_coordinator_does_not_wait_for_a_member_that_left() -> None:
    """CORRECTNESS G20: the rebalance that it caused is not over when the coordinator dies. The other members
    are asked to join again, whether they had heard of that or not."""
    old = Stage()
    generation = old.stable("a", "b", "c")
    for gone, rest in (("b", "ac"), ("a", "bc")):  # a leads
        stage = old.elsewhere()
        assert stage.leave(gone) == (LeftMember(gone),)
        new = stage.elsewhere()
        assert [member.member for member in new.describe().members] == list(rest)
        assert new.state == "PreparingRebalance"
        joins = {member: new.join(member) for member in rest}
        assert {new.answer(join, Joined).generation for join in joins.values()} == {generation + 1}
        assert new.answer(new.heartbeat(gone, generation), UnknownMemberId)


def test_a_leave_is_answered_once_the_log_has_it() -> None:
    stage = Stage()
    stage.stable("a", "b")
    stage.writing = False
    token = stage.ask(leaving("b"))
    assert stage.waits(token)
    assert stage.state == "PreparingRebalance"
    stage.written()
    assert stage.answer(token, tuple) == (LeftMember("b"),)


def test_members_that_leave_while_a_leave_is_written_are_written_together() -> None:
    """Each write has the whole group: one for each of a thousand members would be too much."""
    stage = Stage()
    stage.stable("a", "b", "c", "d")
    stage.writing = False
    tokens = [stage.ask(leaving(member)) for member in "bcd"]
    stage.written()
    assert [stage.waits(token) for token in tokens] == [False, True, True]
    stage.written()
    assert [stage.waits(token) for token in tokens] == [False, False, False]
    assert not stage.wanted
    assert [member.member for member in stage.elsewhere().describe().members] == ["a"]


def test_the_start_of_the_next_generation_says_who_left() -> None:
    stage = Stage()
    stage.stable("a", "b")
    a = stage.join("a")
    stage.writing = False
    token = stage.ask(leaving("b"))
    assert len(stage.wanted) == 1
    assert stage.waits(a) and stage.waits(token)
    stage.written()
    assert stage.answer(a, Joined).generation == 3
    assert stage.answer(token, tuple) == (LeftMember("b"),)


def test_a_start_that_could_not_be_written_says_nothing_of_who_left() -> None:
    stage = Stage()
    stage.stable("a", "b")
    a = stage.join("a")
    stage.writing = False
    token = stage.ask(leaving("b"))
    stage.failed()
    assert stage.answer(a, CoordinatorNotAvailable)
    assert stage.waits(token)
    stage.written()
    assert stage.answer(token, tuple) == (LeftMember("b"),)


def test_the_last_leave_is_answered_once_the_log_has_the_empty_group() -> None:
    stage = Stage()
    stage.stable("a", "b")
    stage.writing = False
    tokens = [stage.ask(leaving("a")), stage.ask(leaving("b"))]
    assert stage.waits(tokens[1])
    stage.written()
    assert not stage.waits(tokens[0]) and stage.waits(tokens[1])
    stage.written()
    assert stage.answer(tokens[1], tuple) == (LeftMember("b"),)
    assert stage.elsewhere().state == "Empty"


def test_a_leave_that_could_not_be_written_is_an_error() -> None:
    stage = Stage()
    stage.stable("a", "b")
    stage.writing = False
    token = stage.ask(leaving("b"))
    stage.failed()
    assert "was not written" in stage.answer(token, CoordinatorNotAvailable).message
    stage.unload()


def test_a_leave_that_waits_for_the_log_is_answered_when_another_broker_leads() -> None:
    stage = Stage()
    stage.stable("a", "b", "c")
    stage.writing = False
    tokens = [stage.ask(leaving(member)) for member in "bc"]
    stage.unload()
    for token in tokens:
        assert stage.answer(token, NotCoordinator)


def test_a_member_that_the_log_does_not_know_leaves_at_once() -> None:
    stage = Stage(replace(LIMITS, group_initial_rebalance_delay_ms=3_000))
    stage.enter("a")
    stage.enter("b")
    stage.writing = False
    assert stage.leave("b") == (LeftMember("b"),)
    assert not stage.wanted
