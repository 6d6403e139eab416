"""A name in a group belongs to the caller that made it (A1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.broker.core.groups.requests import Commit, Report, Request
from strandline.errors import GroupAuthorizationFailed, StrandlineError
from strandline.security.principal import ANONYMOUS, Principal
from strandline.vocabulary.groups import (
    CommittedOffset,
    Heartbeat,
    Joined,
    LeavingMember,
    OffsetCommit,
    OwnershipChange,
    OwnershipKind,
    ReportOwnership,
    ReportTasks,
    SyncGroup,
)
from tests.broker.core.groups.support.stage import GROUP, Stage, partition

ALICE, MALLORY = Principal("alice"), Principal("mallory")


def staged(by: Principal | None = ALICE) -> Stage:
    stage = Stage()
    stage.by = by
    return stage


IN_A_NAME: dict[str, Callable[[int], Request]] = {
    "heartbeat": lambda generation: Heartbeat(GROUP, "a", generation),
    "sync": lambda generation: SyncGroup(GROUP, "a", generation, "consumer", "range", {}),
    "commit": lambda generation: Commit(
        OffsetCommit(GROUP, "a", generation, {partition(0): CommittedOffset(7)})
    ),
    "ownership": lambda generation: Report(
        ReportOwnership(
            GROUP,
            "a",
            generation,
            (OwnershipChange(OwnershipKind.ASSIGNED, (partition(0),), 0, generation),),
        )
    ),
    "tasks": lambda generation: ReportTasks(GROUP, "a", generation, ()),
}


@pytest.mark.parametrize("make", IN_A_NAME.values(), ids=IN_A_NAME.keys())
def test_only_the_caller_that_joined_speaks_for_its_member(make: Callable[[int], Request]) -> None:
    """A1: no other caller sends a heartbeat, syncs, commits or reports in a member's name."""
    stage = staged()
    request = make(stage.stable("a"))
    stage.by = MALLORY
    refused = stage.answer(stage.ask(request), GroupAuthorizationFailed)
    assert "User:mallory" in refused.message
    assert "alice" not in refused.message
    stage.by = ALICE
    assert not isinstance(stage.answers[stage.ask(request)], StrandlineError)
    assert stage.state == "Stable"


def test_no_other_caller_joins_again_with_a_members_id() -> None:
    """A1"""
    stage = staged()
    stage.stable("a")
    stage.by = MALLORY
    assert stage.answer(stage.join("a"), GroupAuthorizationFailed)
    assert stage.state == "Stable"


def test_an_id_that_was_given_is_used_by_the_caller_that_got_it() -> None:
    """A1: between the two joins of a new member (KIP-394) its id is its caller's, for leaving too."""
    stage = staged()
    stage.join("", "a")
    stage.by = MALLORY
    assert stage.answer(stage.join("a"), GroupAuthorizationFailed)
    (left,) = stage.leave("a")
    assert isinstance(left.error, GroupAuthorizationFailed)
    stage.by = ALICE
    assert stage.answer(stage.join("a"), Joined)


def test_no_other_caller_makes_a_member_leave() -> None:
    """A1: neither by its id nor by its instance."""
    stage = staged()
    stage.answer(stage.join("", "s", instance="one"), Joined)
    stage.by = MALLORY
    for one in (LeavingMember("s", "one"), LeavingMember("", "one")):
        (left,) = stage.leave(one)
        assert isinstance(left.error, GroupAuthorizationFailed)
    stage.by = ALICE
    (left,) = stage.leave(LeavingMember("", "one"))
    assert left.error is None


def test_no_other_caller_takes_the_place_of_an_instance() -> None:
    """A1: its members' work would be another's, and the process that had it would be fenced."""
    stage = staged()
    stage.answer(stage.join("", "s", instance="one"), Joined)
    stage.by = MALLORY
    assert stage.answer(stage.join("", "t", instance="one"), GroupAuthorizationFailed)
    assert [member.member for member in stage.describe().members] == ["s"]
    stage.by = ALICE
    stage.join("", "t", instance="one")
    assert [member.member for member in stage.describe().members] == ["t"]


def test_the_name_of_an_anonymous_caller_may_be_taken_over_once() -> None:
    """A1: clients move from a listener without names to one with names, one process after the other."""
    stage = staged(ANONYMOUS)
    generation = stage.stable("a")
    stage.by = ALICE
    assert stage.answers[stage.heartbeat("a", generation)] is None
    for other in (ANONYMOUS, MALLORY):
        stage.by = other
        assert stage.answer(stage.heartbeat("a", generation), GroupAuthorizationFailed)


def test_a_loaded_member_belongs_to_the_first_caller_that_speaks_for_it() -> None:
    """A1: the log has no principals, so a change of coordinator forgets them."""
    stage = staged()
    generation = stage.stable("a")
    later = stage.elsewhere()
    later.by = ALICE
    assert later.answers[later.heartbeat("a", generation)] is None
    later.by = MALLORY
    assert later.answer(later.heartbeat("a", generation), GroupAuthorizationFailed)


def test_where_callers_are_not_told_apart_nothing_is_refused() -> None:
    """A1: without an authorizer a group works as if there were no principals."""
    stage = staged(None)
    generation = stage.stable("a")
    assert stage.answers[stage.heartbeat("a", generation)] is None
    assert stage.leave("a")[0].error is None
