"""Static members: an instance outlives its process (KIP-345, KIP-814; G13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.groups.effects import EventKind
from strandline.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    InconsistentGroupProtocol,
    InvalidRequest,
    RebalanceInProgress,
    UnknownMemberId,
)
from strandline.vocabulary.groups import GroupProtocol, Joined, OwnershipChange, OwnershipKind
from tests.broker.core.groups.support.stage import LIMITS, RANGE, REBALANCE_MS, SESSION_MS, Stage, partition

NEWS = (GroupProtocol("range", b"other topics"),)
MORE = (*RANGE, GroupProtocol("sticky", b"topics"))


def pair(protocols: tuple[GroupProtocol, ...] = RANGE) -> tuple[Stage, int]:
    """The leader `a1` of instance `a` and the follower `b1` of instance `b`, stable."""
    stage = Stage(replace(LIMITS, group_initial_rebalance_delay_ms=100))
    tokens = {f"{name}1": stage.join("", f"{name}1", instance=name, protocols=protocols) for name in "ab"}
    stage.later(1)
    stage.sync_all(tokens)
    return stage, 1


def test_a_static_member_needs_no_second_join() -> None:
    """KIP-394 protects from members without a name; an instance has one."""
    stage = Stage()
    assert stage.answer(stage.join("", "s1", instance="s"), Joined).member == "s1"


def test_an_instance_that_returns_takes_its_place_and_no_other_member_notices() -> None:
    """KIP-345: no rebalance, and the same assignment."""
    stage, generation = pair()
    held = stage.heartbeat("a1", generation, wait_ms=3_000, instance="a")
    joined = stage.answer(stage.join("", "b2", instance="b"), Joined)
    assert (joined.member, joined.generation, joined.leader) == ("b2", generation, "a1")
    assert not joined.skip_assignment
    assert stage.answer(stage.sync("b2", generation, instance="b"), bytes) == b"b1"
    assert stage.waits(held)
    assert stage.state == "Stable"


def test_a_leader_that_returns_leads_on_and_must_not_assign_again() -> None:
    """KIP-814 (G13): the assignment is the group's, not in the memory of the process that made it."""
    stage, generation = pair()
    joined = stage.answer(stage.join("", "a2", instance="a"), Joined)
    assert (joined.generation, joined.leader, joined.skip_assignment) == (generation, "a2", True)
    assert [member.member for member in joined.members] == ["b1", "a2"]
    assert stage.answer(stage.sync("a2", generation, {}, instance="a"), bytes) == b"a1"
    assert stage.describe().leader == "a2"


def test_the_process_that_was_replaced_is_fenced_in_all_it_does() -> None:
    """CORRECTNESS G1: what it holds of this instance is another's."""
    stage, generation = pair()
    held = stage.heartbeat("b1", generation, wait_ms=3_000, instance="b")
    stage.join("", "b2", instance="b")
    assert "is member 'b2' now" in stage.answer(held, FencedInstanceId).message
    for token in (
        stage.heartbeat("b1", generation, instance="b"),
        stage.sync("b1", generation, instance="b"),
        stage.join("b1", instance="b"),
        stage.commit({partition(0): 5}, "b1", generation, instance="b"),
    ):
        assert stage.answer(token, FencedInstanceId)
    assert stage.answer(stage.heartbeat("b1", generation), UnknownMemberId)
    assert stage.answer(stage.join("b2", instance="nobody"), UnknownMemberId)


def test_partitions_of_the_replaced_process_are_lost() -> None:
    stage, generation = pair()
    change = OwnershipChange(OwnershipKind.ASSIGNED, (partition(1),), 5, generation)
    stage.report("b1", generation, change)
    stage.join("", "b2", instance="b")
    lost = [event for event in stage.events if event.kind is EventKind.LOST]
    assert [(event.member, event.partitions) for event in lost] == [("b1", (partition(1),))]


def test_an_instance_that_returns_with_other_metadata_has_its_assignment_too() -> None:
    """KIP-345: what a process says that owns nothing yet is never what one said that did (KIP-429)."""
    stage, generation = pair()
    joined = stage.answer(stage.join("", "b2", instance="b", protocols=NEWS), Joined)
    assert joined.generation == generation
    assert stage.answer(stage.sync("b2", generation, instance="b"), bytes) == b"b1"
    assert stage.describe().members[1].metadata == b"other topics"
    assert stage.state == "Stable"


@pytest.mark.parametrize("moves", [False, True])
def test_news_of_an_instance_that_returned_count_once_it_joins_again(moves: bool) -> None:
    """The assignment was made for what the process before it said, wherever the group is led by now: also a
    member whose join says nothing of what it owns is heard."""
    stage, generation = pair()
    stage.join("", "b2", instance="b", protocols=NEWS)
    if moves:
        stage = stage.elsewhere()
    b = stage.join("b2", instance="b", protocols=NEWS, reason="other topics are wanted")
    assert stage.waits(b)
    a = stage.join("a1", instance="a")
    assert stage.answer(b, Joined).generation == stage.answer(a, Joined).generation == generation + 1
    assert "other topics are wanted" in stage.answer(a, Joined).reason
    stage.sync("a1", generation + 1, {"a1": b"x", "b2": b"y"}, instance="a")
    again = stage.join("b2", instance="b", protocols=NEWS)
    assert stage.answer(again, Joined).generation == generation + 1, "and then it is no longer new"


@pytest.mark.parametrize("moves", [False, True])
def test_an_instance_that_returns_as_it_was_at_first_says_nothing_new(moves: bool) -> None:
    """The one in between said something else, and nothing came of it."""
    stage, generation = pair()
    stage.join("", "b2", instance="b", protocols=NEWS)
    if moves:
        stage = stage.elsewhere()
    stage.join("", "b3", instance="b")
    assert stage.answer(stage.join("b3", instance="b"), Joined).generation == generation


def test_an_instance_that_returns_and_makes_the_group_choose_another_protocol_causes_a_rebalance() -> None:
    """Its assignment would come from an assignor that the group no longer uses."""
    stage, generation = pair(MORE)
    assert (stage.state, stage.describe().protocol) == ("Stable", "range")
    b = stage.join("", "b2", instance="b", protocols=MORE[1:])
    a = stage.join("a1", instance="a", protocols=MORE)
    assert stage.answer(b, Joined).generation == stage.answer(a, Joined).generation == generation + 1
    assert stage.answer(a, Joined).protocol == "sticky"
    assert "took the place of instance b" in stage.answer(a, Joined).reason


def test_an_instance_that_returns_without_an_unused_protocol_is_not_noticed() -> None:
    stage, generation = pair(MORE)
    b = stage.join("", "b2", instance="b", protocols=MORE[:1])
    assert stage.answer(b, Joined).generation == generation


def test_an_instance_that_returns_before_the_assignment_causes_another_generation() -> None:
    """The leader assigns to a member that is gone: the returning one would never get its assignment."""
    stage, generation = pair()
    stage.join("a1", instance="a"), stage.join("b1", instance="b")
    assert stage.state == "CompletingRebalance"
    b = stage.join("", "b2", instance="b")
    late = stage.sync("a1", generation + 1, {"a1": b"x", "b1": b"y"}, instance="a")
    assert stage.answer(late, RebalanceInProgress)
    stage.join("a1", instance="a")
    assert stage.answer(b, Joined).generation == generation + 2


def test_an_instance_that_returns_during_the_barrier_belongs_to_the_generation() -> None:
    stage, generation = pair()
    old = stage.join("b1", instance="b", protocols=NEWS)
    new = stage.join("", "b2", instance="b")
    assert stage.answer(old, FencedInstanceId)
    stage.join("a1", instance="a")
    assert stage.answer(new, Joined).generation == generation + 1


def test_a_replacement_that_is_not_written_is_not_reported() -> None:
    """CORRECTNESS G12, G13: a coordinator that takes over would know the old process only."""
    stage, generation = pair()
    stage.writing = False
    first = stage.join("", "b2", instance="b")
    assert stage.waits(first)
    stage.failed()
    assert stage.answer(first, CoordinatorNotAvailable)
    second = stage.join("", "b3", instance="b")
    stage.written()
    assert stage.answer(second, Joined).generation == generation
    assert stage.state == "Stable"


def test_a_rebalance_that_begins_before_a_replacement_is_written_takes_it_along() -> None:
    stage, generation = pair()
    stage.writing = False
    b = stage.join("", "b2", instance="b")
    a = stage.join("a1", instance="a")
    stage.written()
    stage.written()
    assert stage.answer(a, Joined).generation == stage.answer(b, Joined).generation == generation + 1


def test_a_static_member_has_its_whole_session_to_come_back() -> None:
    stage, generation = pair()
    stage.later(SESSION_MS / 1000 - 1)
    stage.heartbeat("a1", generation, instance="a")
    assert stage.state == "Stable"
    stage.later(1)
    assert [member.member for member in stage.describe().members] == ["a1"]


def test_a_static_member_that_does_not_join_again_is_out_like_any_other() -> None:
    """The barrier waits for it as long as for the others."""
    stage, generation = pair()
    a = stage.join("a1", instance="a")
    for _ in range(REBALANCE_MS // SESSION_MS * 2):
        stage.heartbeat("b1", generation, instance="b")
        stage.later(SESSION_MS / 2000)
    assert stage.answer(a, Joined).generation == generation + 1
    assert [member.member for member in stage.describe().members] == ["a1"]


def test_an_instance_that_returns_with_a_protocol_of_its_own_is_refused_and_the_old_one_stays() -> None:
    stage, generation = pair()
    before = stage.describe()
    token = stage.join("", "b2", instance="b", protocols=(GroupProtocol("mine", b""),))
    assert "supports mine" in stage.answer(token, InconsistentGroupProtocol).message
    assert stage.describe() == before
    assert stage.answers[stage.heartbeat("b1", generation, instance="b")] is None


def test_an_id_that_was_given_without_an_instance_is_not_one_of_an_instance() -> None:
    stage = Stage()
    stage.join("", "a")
    assert "without an instance" in stage.answer(stage.join("a", instance="i"), InvalidRequest).message
