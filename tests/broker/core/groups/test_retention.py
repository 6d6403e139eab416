"""Retention: unused offsets, groups without members and deleted topics are removed."""

from __future__ import annotations

from dataclasses import replace

from strandline.broker.core.groups.offset_keeper import GROUPS_PER_TURN_MAX
from strandline.broker.core.groups.requests import ListGroups
from strandline.broker.core.groups.state.offsets import SeenTopics
from strandline.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    InvalidGroupId,
    NonEmptyGroup,
    NotCoordinator,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import Joined, ListedGroup
from tests.broker.core.groups.support.stage import GROUP, LIMITS, Stage, partition

P0, P1 = partition(0), partition(1)
RETENTION_S = LIMITS.offsets_retention_ms / 1000
CHECK_S = LIMITS.offsets_expiry_check_ms / 1000


def test_offsets_of_a_group_without_members_expire_and_the_group_with_them() -> None:
    stage = Stage()
    generation = stage.stable("a")
    stage.commit({P0: 5, P1: 6}, "a", generation)
    stage.leave("a")
    stage.later(RETENTION_S - CHECK_S)
    assert stage.committed() == {P0: 5, P1: 6}
    stage.later(2 * CHECK_S)
    assert stage.committed() == {}
    assert isinstance(stage.describe_error(), GroupIdNotFound)
    assert stage.elsewhere().committed() == {}
    assert isinstance(stage.elsewhere().describe_error(), GroupIdNotFound)


def test_offsets_of_a_group_with_members_never_expire() -> None:
    """(G15) however old the commit: the members read on from there."""
    stage = Stage()
    generation = stage.stable("a", session_timeout_ms=1_800_000)
    stage.commit({P0: 5}, "a", generation)
    for _ in range(6):
        stage.later(RETENTION_S / 3)
        stage.heartbeat("a", generation)
    stage.leave("a")
    stage.later(CHECK_S)
    assert stage.committed() == {P0: 5}, "the time counts from when the last member left"


def test_an_offset_that_is_committed_again_from_outside_stays_and_keeps_its_group() -> None:
    stage = Stage()
    stage.commit({P0: 1, P1: 1})
    stage.later(RETENTION_S / 2)
    stage.commit({P0: 2})
    stage.later(RETENTION_S / 2 + CHECK_S)
    assert stage.committed() == {P0: 2}
    stage.later(RETENTION_S / 2 + CHECK_S)
    assert isinstance(stage.describe_error(), GroupIdNotFound)


def test_an_expiry_that_cannot_be_written_is_tried_again() -> None:
    """CORRECTNESS G12: what the log has still is what a successor sees."""
    stage = Stage()
    stage.commit({P0: 1})
    stage.writing = False
    stage.later(RETENTION_S + CHECK_S)
    stage.later(3 * CHECK_S)
    assert len(stage.wanted) == 1, "one removal of a group at a time"
    stage.failed()
    assert stage.committed() == {P0: 1}
    stage.writing = True
    stage.later(2 * CHECK_S)
    assert stage.committed() == {}


def test_a_member_that_joins_while_its_groups_end_is_being_written_keeps_the_group() -> None:
    stage = Stage()
    stage.stable("a")
    stage.leave("a")
    stage.writing = False
    deleted = stage.delete()
    b = stage.enter("b")
    stage.written()
    assert stage.answers[deleted] is None
    stage.written()
    assert stage.answer(b, Joined).generation == 3
    assert stage.elsewhere().describe().members != ()


def test_an_offset_that_is_committed_while_its_groups_end_is_being_written_stays() -> None:
    stage = Stage()
    stage.commit({P0: 1, P1: 1})
    stage.writing = False
    stage.delete()
    stage.commit({P0: 2})
    stage.written()
    stage.written()
    assert stage.committed() == stage.elsewhere().committed() == {P0: 2}


def test_a_round_of_expiry_is_done_in_turns() -> None:
    """100,000 groups must not keep the event loop."""
    count = GROUPS_PER_TURN_MAX + 10
    stage = Stage(replace(LIMITS, groups_max=count))
    for number in range(count):
        stage.commit({P0: 1}, group=f"g{number}")
    stage.at_s += RETENTION_S + CHECK_S
    writes = len(stage.log)
    stage.play(stage.core.tick(stage.now))
    assert len(stage.log) - writes == GROUPS_PER_TURN_MAX * 2
    stage.later(0.001)
    listed = stage.ask(ListGroups())
    assert stage.answers[listed] == ()


def test_a_group_is_deleted_with_all_its_offsets_once_that_is_written() -> None:
    stage = Stage()
    generation = stage.stable("a")
    stage.commit({P0: 1}, "a", generation)
    stage.leave("a")
    stage.writing = False
    token = stage.delete()
    assert stage.waits(token)
    assert stage.committed() == {P0: 1}
    stage.written()
    assert stage.answers[token] is None
    assert isinstance(stage.describe_error(), GroupIdNotFound)
    assert stage.elsewhere().committed() == {}


def test_a_group_with_members_and_an_unknown_group_are_not_deleted() -> None:
    stage = Stage()
    assert stage.answer(stage.delete(), GroupIdNotFound)
    assert stage.answer(stage.delete(""), InvalidGroupId)
    stage.stable("a")
    assert "Stable with 1 members" in stage.answer(stage.delete(), NonEmptyGroup).message
    assert stage.state == "Stable"


def test_a_deletion_that_is_not_written_is_an_error() -> None:
    """CORRECTNESS G12"""
    stage = Stage()
    stage.commit({P0: 1})
    stage.writing = False
    failed = stage.delete()
    stage.failed()
    assert stage.answer(failed, CoordinatorNotAvailable)
    assert stage.committed() == {P0: 1}
    moved = stage.delete()
    stage.unload()
    assert stage.answer(moved, NotCoordinator)


def test_offsets_of_deleted_topics_go_and_others_stay() -> None:
    """Also those of a group at work: a topic of the same name will begin at zero."""
    stage = Stage()
    generation = stage.stable("a")
    stage.commit({P0: 1, TopicPartition("old", 0): 9}, "a", generation)
    stage.commit({TopicPartition("old", 1): 9}, group="other")
    stage.play(stage.core.follow_topics(SeenTopics(stage.core.mark, {"old"}), stage.now))
    assert (stage.committed(), stage.committed("other")) == ({P0: 1}, {})
    assert stage.state == "Stable"
    assert stage.elsewhere().committed() == {P0: 1}


def test_groups_are_listed_by_name() -> None:
    stage = Stage()
    stage.stable("a")
    stage.commit({P0: 1}, group="alone")
    token = stage.ask(ListGroups())
    assert stage.answers[token] == (
        ListedGroup("alone", "", "Empty"),
        ListedGroup(GROUP, "consumer", "Stable"),
    )
