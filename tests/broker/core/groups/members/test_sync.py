"""The assignment: computed by the leader, written before any member receives it (G12, G13)."""

from __future__ import annotations

from strandline.broker.core.groups.effects import EventKind
from strandline.errors import (
    CoordinatorNotAvailable,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidRequest,
    NotCoordinator,
    NotLeaderOrFollower,
    RebalanceInProgress,
    UnknownMemberId,
)
from strandline.vocabulary.groups import GroupProtocol, Joined, SyncGroup
from tests.broker.core.groups.support.stage import GROUP, REBALANCE_MS, SESSION_MS, Stage


def completing(*members: str) -> tuple[Stage, int]:
    """A group whose members have learned of a generation; `members[0]` leads."""
    stage = Stage()
    generation = stage.stable(*members)
    stage.join(members[0])
    for member in members[1:]:
        stage.join(member)
    assert stage.state == "CompletingRebalance"
    return stage, generation + 1


def test_followers_wait_for_the_leader_and_all_wait_for_the_log() -> None:
    """CORRECTNESS G12: no member has an assignment that is not written."""
    stage, generation = completing("a", "b")
    b = stage.sync("b", generation)
    assert stage.waits(b)
    stage.writing = False
    a = stage.sync("a", generation, {"a": b"1", "b": b"2"})
    assert stage.waits(a) and stage.waits(b)
    assert stage.state == "CompletingRebalance"
    stage.written()
    assert (stage.answer(a, bytes), stage.answer(b, bytes)) == (b"1", b"2")
    assert stage.state == "Stable"
    assert stage.kinds()[-1] is EventKind.GENERATION_STABLE


def test_a_member_whose_answer_was_lost_gets_its_assignment_again() -> None:
    stage, generation = completing("a", "b")
    stage.sync("a", generation, {"a": b"1", "b": b"2"})
    assert stage.answer(stage.sync("b", generation), bytes) == b"2"
    assert stage.answer(stage.sync("a", generation, {"a": b"other"}), bytes) == b"1"


def test_a_member_without_an_assignment_has_nothing_to_do() -> None:
    stage, generation = completing("a", "b")
    b = stage.sync("b", generation)
    stage.sync("a", generation, {"a": b"1"})
    assert stage.answer(b, bytes) == b""
    assert stage.state == "Stable"


def test_an_assignment_for_a_member_that_is_gone_is_ignored() -> None:
    """As in Kafka: the leader assigns for the members that its join named. Of any size: it is not kept."""
    stage, generation = completing("a", "b")
    b = stage.sync("b", generation)
    a = stage.sync("a", generation, {"a": b"1", "zed": b"x" * 200_000, "b": b"3"})
    assert (stage.answer(a, bytes), stage.answer(b, bytes)) == (b"1", b"3")
    assert sum(len(value or b"") for _, value in stage.log) < 10_000


def test_an_assignment_that_is_too_large_is_refused_with_its_bound() -> None:
    stage, generation = completing("a", "b")
    wrong = stage.sync("a", generation, {"a": b"x" * 131_073})
    assert stage.answer(wrong, InvalidRequest).limit == 131_072
    assert stage.state == "CompletingRebalance"


def test_an_assignment_that_cannot_be_written_is_an_error_for_all_and_the_group_rebalances() -> None:
    """CORRECTNESS G12"""
    stage, generation = completing("a", "b")
    b = stage.sync("b", generation)
    stage.writing = False
    a = stage.sync("a", generation, {"a": b"1", "b": b"2"})
    stage.failed()
    assert "too few replicas" in stage.answer(a, CoordinatorNotAvailable).message
    assert stage.answer(b, CoordinatorNotAvailable)
    assert stage.state == "PreparingRebalance"
    assert stage.answer(stage.sync("b", generation), RebalanceInProgress)
    stage.writing = True
    tokens = {"a": stage.join("a"), "b": stage.join("b")}
    stage.sync_all(tokens)
    assert stage.generation == generation + 1


def test_a_write_that_met_another_leader_sends_the_members_on() -> None:
    stage, generation = completing("a")
    stage.writing = False
    a = stage.sync("a", generation, {})
    stage.failed(NotLeaderOrFollower("deposed"))
    assert stage.answer(a, NotCoordinator)


def test_an_assignment_written_after_its_generation_ended_is_ignored() -> None:
    """CORRECTNESS G4: a late result belongs to the generation that asked."""
    stage, generation = completing("a", "b")
    b = stage.sync("b", generation)
    stage.writing = False
    a = stage.sync("a", generation, {"a": b"1", "b": b"2"})
    stage.enter("c")
    assert stage.answer(a, RebalanceInProgress)
    assert stage.answer(b, RebalanceInProgress)
    stage.written()
    assert stage.state == "PreparingRebalance"
    a, b = stage.join("a"), stage.join("b")
    stage.written()
    assert stage.answer(a, Joined).generation == generation + 1
    assert [member.assignment for member in stage.describe().members] == [b"", b"", b""]


def test_an_assignment_that_is_written_when_the_next_generation_begins_is_not_that_ones() -> None:
    """CORRECTNESS G4"""
    stage, generation = completing("a", "b")
    stage.writing = False
    stage.sync("a", generation, {"a": b"1", "b": b"2"})
    a = stage.join("a", protocols=(GroupProtocol("range", b"news"),))
    b = stage.join("b")
    assert [len(append.records) for append in stage.wanted] == [1, 1]
    stage.written()
    assert (stage.state, stage.generation) == ("CompletingRebalance", generation + 1)
    assert stage.waits(a) and stage.waits(b)
    stage.written()
    assert stage.answer(a, Joined).generation == generation + 1
    assert stage.waits(stage.sync("b", generation + 1))


def test_no_member_syncs_in_a_generation_that_is_not_announced_yet() -> None:
    """CORRECTNESS G12: it may never be written."""
    stage = Stage()
    generation = stage.stable("a")
    stage.writing = False
    stage.join("a")
    assert stage.answer(stage.sync("a", generation + 1, {"a": b"1"}), RebalanceInProgress)
    assert len(stage.wanted) == 1


def test_a_sync_of_another_generation_member_or_protocol_is_refused() -> None:
    """CORRECTNESS G1"""
    stage, generation = completing("a", "b")
    assert stage.answer(stage.sync("b", generation - 1), IllegalGeneration)
    assert stage.answer(stage.sync("b", generation + 1), IllegalGeneration)
    assert stage.answer(stage.sync("zed", generation), UnknownMemberId)
    for kind, name in (("consumer", "sticky"), ("connect", "range")):
        request = SyncGroup(GROUP, "b", generation, kind, name)
        token = stage.ask(request)
        assert "goes by" in stage.answer(token, InconsistentGroupProtocol).message
    assert stage.state == "CompletingRebalance"


def test_a_follower_cannot_assign() -> None:
    stage, generation = completing("a", "b")
    b = stage.sync("b", generation, {"a": b"x", "b": b"x"})
    assert stage.waits(b)
    stage.sync("a", generation, {"a": b"1", "b": b"2"})
    assert stage.answer(b, bytes) == b"2"


def test_a_member_that_never_syncs_is_removed_at_the_rebalance_timeout() -> None:
    """It beats, so its session lives; but it works on nothing of what it is assigned."""
    stage, generation = completing("a", "b")
    stage.sync("a", generation, {"a": b"1", "b": b"2"})
    for _ in range(REBALANCE_MS // SESSION_MS * 2):
        stage.heartbeat("a", generation)
        stage.heartbeat("b", generation)
        stage.later(SESSION_MS / 2000)
    assert stage.state == "PreparingRebalance"
    assert [member.member for member in stage.describe().members] == ["a"]
    assert stage.describe().caused_by == "b"


def test_a_leader_that_dies_before_it_assigned_is_replaced() -> None:
    stage, generation = completing("a", "b")
    b = stage.sync("b", generation)
    stage.later(SESSION_MS / 1000)
    assert stage.answer(b, RebalanceInProgress)
    assert stage.answer(stage.join("b"), Joined).leader == "b"


def test_a_sync_that_is_sent_again_takes_the_place_of_the_one_that_waits() -> None:
    stage, generation = completing("a", "b")
    first, second = stage.sync("b", generation), stage.sync("b", generation)
    assert stage.answer(first, RebalanceInProgress)
    stage.sync("a", generation, {"b": b"2"})
    assert stage.answer(second, bytes) == b"2"
