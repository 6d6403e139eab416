"""A coordinator dies and another one reads the log: the group continues (G12, G13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.coordinators.effects import Answer
from strandline.broker.core.groups.coordinator import Coordinator
from strandline.broker.core.groups.records import (
    GroupValue,
    StoredMember,
    UnreadableGroupRecord,
    decode_group_value,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
)
from strandline.broker.core.groups.requests import ListGroups
from strandline.broker.core.groups.state.offsets import SeenTopics
from strandline.errors import (
    CoordinatorLoading,
    IllegalGeneration,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from strandline.vocabulary.groups import GroupProtocol, Joined
from tests.broker.core.groups.support.stage import (
    GROUP,
    LIMITS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    Numbered,
    Record,
    Stage,
    partition,
)

P0 = partition(0)
BOTH = (GroupProtocol("range", b"topics"), GroupProtocol("sticky", b"s"))


def test_a_stable_group_continues_in_its_generation() -> None:
    """Its members continue to send heartbeats and commits; none joins."""
    old = Stage()
    generation = old.stable("a", "b", "c")
    old.commit({P0: 7}, "b", generation)
    new = old.elsewhere()
    assert new.describe() == replace(old.describe(), reason="", caused_by="")
    for member in "abc":
        assert new.answers[new.heartbeat(member, generation)] is None
        assert new.answer(new.sync(member, generation), bytes) == member.encode()
    new.commit({P0: 8}, "b", generation)
    assert new.committed() == {P0: 8}
    assert new.kinds() == []


def test_every_member_has_its_full_session_from_when_the_log_is_read() -> None:
    """However long the loading took: no member could send a heartbeat meanwhile."""
    old = Stage()
    generation = old.stable("a", "b")
    new = old.elsewhere(at_s=old.at_s + 3_600)
    new.later(SESSION_MS / 1000 - 0.001)
    new.heartbeat("a", generation)
    assert new.state == "Stable"
    new.later(0.001)
    assert [member.member for member in new.describe().members] == ["a"]


def test_a_generation_that_had_begun_continues() -> None:
    """CORRECTNESS G13: a member that learned of it from the old coordinator syncs with the new one."""
    old = Stage()
    generation = old.stable("a", "b") + 1
    a, b = old.join("a"), old.join("b")
    assert old.answer(a, Joined).generation == old.answer(b, Joined).generation == generation
    new = old.elsewhere()
    assert (new.state, new.generation) == ("CompletingRebalance", generation)
    b = new.sync("b", generation)
    a = new.sync("a", generation, {"a": b"1", "b": b"2"})
    assert (new.answer(a, bytes), new.answer(b, bytes)) == (b"1", b"2")
    assert new.state == "Stable"


def test_a_member_that_missed_the_generation_joins_again_and_is_notified() -> None:
    old = Stage()
    old.stable("a", "b")
    old.join("a")
    old.writing = False
    b = old.join("b")
    assert old.waits(b)
    old.log.extend(old.wanted.pop().records)
    old.unload()
    assert old.answer(b, NotCoordinator)
    new = old.elsewhere()
    assert new.answer(new.join("b"), Joined).generation == 3
    joined = new.answer(new.join("a"), Joined)
    assert (joined.generation, joined.leader, len(joined.members)) == (3, "a", 2)
    assert new.state == "CompletingRebalance"


def test_a_generation_that_never_got_into_the_log_was_never_announced_and_its_number_is_used_again() -> None:
    old = Stage()
    generation = old.stable("a", "b")
    old.writing = False
    waiting = [old.join("a"), old.join("b")]
    old.unload()
    assert all(old.answer(token, NotCoordinator) for token in waiting)
    new = old.elsewhere()
    assert (new.state, new.generation) == ("Stable", generation)
    a, b = new.join("a"), new.join("b")
    assert new.answer(a, Joined).generation == new.answer(b, Joined).generation == generation + 1


def test_a_generation_whose_leader_does_not_assign_restarts_without_removing_a_member() -> None:
    """All may be well with its members: the assignment they have may be an empty one."""
    old = Stage()
    generation = old.stable("a", "b") + 1
    old.join("a"), old.join("b")
    old.sync("a", generation, {}), old.sync("b", generation)
    assert old.state == "Stable"
    new = old.elsewhere()
    held: list[str] = []
    for _ in range(REBALANCE_MS // SESSION_MS * 2):
        held = [new.heartbeat(member, generation, wait_ms=SESSION_MS) for member in "ab"]
        new.later(SESSION_MS / 2000)
    assert all(new.answer(token, RebalanceInProgress) for token in held)
    assert (new.state, len(new.describe().members)) == ("PreparingRebalance", 2)
    new.sync_all({"a": new.join("a"), "b": new.join("b")})
    assert new.generation == generation + 1


def test_a_member_that_is_only_known_by_the_chosen_protocol_says_nothing_new_with_the_others() -> None:
    """Only what was said under the chosen protocol is written down: that must not cost a rebalance."""
    old = Stage()
    old.stable("a", "b", protocols=BOTH)
    new = old.elsewhere()
    assert new.answer(new.join("b", protocols=BOTH), Joined).generation == 2
    assert new.state == "Stable"
    b = new.join("b", protocols=(BOTH[0],))
    assert new.waits(b), "from now on it is known by all it said"


def test_static_members_are_known_to_the_next_coordinator_by_their_instance() -> None:
    """KIP-345, KIP-814 (G13): leader and coordinator may both restart."""
    old = Stage()
    old.sync_all({"s1": old.join("", "s1", instance="s")})
    new = old.elsewhere()
    joined = new.answer(new.join("", "s2", instance="s"), Joined)
    assert (joined.generation, joined.leader, joined.skip_assignment) == (1, "s2", True)
    third = new.elsewhere()
    assert third.answer(third.sync("s2", 1, instance="s"), bytes) == b"s1"
    assert third.answer(third.heartbeat("s1", 1), UnknownMemberId)


def test_an_empty_group_keeps_its_generation_and_offsets() -> None:
    old = Stage()
    generation = old.stable("a")
    old.commit({P0: 3}, "a", generation)
    old.leave("a")
    new = old.elsewhere()
    assert (new.state, new.generation, new.committed()) == ("Empty", generation + 1, {P0: 3})
    assert new.answer(new.enter("b"), Joined).generation == generation + 2
    assert new.answer(new.commit({P0: 1}, "a", generation), UnknownMemberId)


def test_the_time_without_members_is_counted_across_coordinators() -> None:
    old = Stage()
    generation = old.stable("a")
    old.commit({P0: 3}, "a", generation)
    old.leave("a")
    new = old.elsewhere(at_s=old.at_s + LIMITS.offsets_retention_ms / 1000)
    new.later(LIMITS.offsets_expiry_check_ms / 1000)
    assert new.committed() == {}


def test_a_group_whose_leader_is_unknown_rebalances() -> None:
    member = StoredMember("a", None, "c", "/h", REBALANCE_MS, SESSION_MS, b"topics", b"work")
    value = GroupValue("consumer", 4, "range", None, 0, (member,))
    stage = Stage(log=[(encode_group_key(GROUP), encode_group_value(value))])
    assert stage.state == "PreparingRebalance"
    assert "leader is not among the members" in stage.describe().reason
    assert stage.answer(stage.join("a"), Joined).generation == 5


def test_before_the_log_is_read_and_after_the_end_every_caller_gets_an_error() -> None:
    old = Stage()
    old.stable("a")
    held = old.heartbeat("a", 1, wait_ms=1_000)
    old.unload()
    assert old.answer(held, NotCoordinator)
    assert old.answer(old.join("a"), NotCoordinator)
    assert old.answer(old.delete(), NotCoordinator)
    assert old.core.next_deadline() is None
    assert old.core.tick(old.now) == []
    assert old.core.follow_topics(SeenTopics(0, {"words"}), old.now) == []
    (answer,) = Coordinator(LIMITS).handle(Numbered("1"), ListGroups(), old.now)
    assert isinstance(answer, Answer)
    assert isinstance(answer.value, CoordinatorLoading)


def test_every_waiting_caller_is_answered_when_the_coordinator_moves() -> None:
    stage = Stage()
    generation = stage.stable("a", "b", "c")
    stage.join("a"), stage.join("b"), stage.join("c")
    waiting = [stage.sync("b", generation + 1), stage.heartbeat("c", generation + 1, wait_ms=1_000)]
    stage.writing = False
    waiting.append(stage.sync("a", generation + 1, {}))
    waiting.append(stage.commit({P0: 1}, group="other"))
    stage.unload()
    assert all(stage.answer(token, NotCoordinator) for token in waiting)


def test_a_record_that_cannot_be_read_changes_nothing() -> None:
    old = Stage()
    generation = old.stable("a")
    stage, fresh = Stage(), Coordinator(LIMITS)
    for key, value in old.log:
        fresh.load(key, value, 0)
    unreadable: list[Record] = [
        (b"", None),
        (b"\x00\x63", b""),
        (encode_group_key(GROUP), b"\x00\x03"),
        (encode_offset_key(GROUP, P0), b"\x00\x01"),
    ]
    for key, value in unreadable:
        with pytest.raises(UnreadableGroupRecord):
            fresh.load(key, value, 0)
    stage.core = fresh
    stage.play(fresh.loaded(stage.now))
    assert (stage.state, stage.generation, stage.committed()) == ("Stable", generation, {})


def test_tombstones_take_away_what_came_before_them() -> None:
    old = Stage()
    generation = old.stable("a")
    old.commit({P0: 3}, "a", generation)
    gone: list[Record] = [(encode_offset_key(GROUP, P0), None), (encode_group_key(GROUP), None)]
    assert "not known" in Stage(log=[*old.log, *gone]).describe_error().message
    assert "not known" in Stage(log=[*old.log, *reversed(gone)]).describe_error().message
    kept = Stage(log=[*old.log, (encode_group_key(GROUP), None)])
    assert (kept.state, kept.generation, kept.committed()) == ("Empty", 0, {P0: 3})
    assert "not known" in Stage(log=gone).describe_error().message


def test_the_record_of_a_new_generation_has_its_members_and_no_assignment() -> None:
    stage = Stage()
    stage.stable("a")
    beginning, assigned = (decode_group_value(value) for _, value in stage.log if value is not None)
    assert [(m.member, m.metadata, m.assignment) for m in beginning.members] == [
        ("a", RANGE[0].metadata, b"")
    ]
    assert [(m.member, m.assignment) for m in assigned.members] == [("a", b"a")]
    assert beginning.generation == assigned.generation == 1
    assert (beginning.leader, beginning.protocol) == ("a", "range")


def test_a_member_of_a_generation_that_the_log_does_not_have_gets_an_error() -> None:
    """CORRECTNESS G1"""
    old = Stage()
    generation = old.stable("a")
    new = old.elsewhere()
    assert new.answer(new.heartbeat("a", generation + 1), IllegalGeneration)
