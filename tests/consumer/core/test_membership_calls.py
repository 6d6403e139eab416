"""Calls of a member that are answered too late, lost, or refused (CORRECTNESS G3, G4, G8)."""

from __future__ import annotations

import pytest

from strandline.consumer.core.member_effects import (
    DelayJoin,
    Fatal,
    FindCoordinator,
    LogLine,
    Lose,
    Report,
    Revoke,
    SendLeave,
    SendSync,
    StopHeartbeat,
)
from strandline.consumer.core.member_states import State
from strandline.errors import (
    CoordinatorLoading,
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InvalidRequest,
    NotCoordinator,
    OutcomeUnknown,
    StrandlineError,
    UnknownMemberId,
)
from strandline.vocabulary.groups import Joined, MemberIdGiven
from strandline.vocabulary.parsing.consumer_protocol import Assignment, AssignmentError
from tests.consumer.core.support.one_member import NOW, One, parts

STALE = 10_000
"""The number of no request."""


# --- answers that come too late --------------------------------------------------------------------


def test_answers_to_abandoned_requests_count_for_nothing() -> None:
    """CORRECTNESS G4: each answer is compared with what its request was sent for."""
    one = One().stable("t0")
    effects = one.join_again()
    assert isinstance(effects[-1], SendSync)
    assert one.core.synced(STALE, Assignment(1, parts("t0 t7")).encode(), NOW) == []
    assert one.core.sync_failed(STALE, UnknownMemberId("who?"), NOW) == []
    assert one.core.join_failed(STALE, UnknownMemberId("who?"), NOW) == []
    assert one.core.joined(STALE, Joined("a", 9, "sticky", "b"), NOW) == []
    assert one.core.released(STALE, NOW) == one.core.backed_off(STALE, NOW) == []
    assert one.core.metadata(STALE, {}, NOW) == []
    assert (one.core.state, one.core.generation) == (State.SYNCING, 2)


@pytest.mark.parametrize(("member", "generation"), [("a", 0), ("a", 2), ("b", 1), ("", -1)])
def test_a_refusal_of_what_the_member_no_longer_is_counts_for_nothing(member: str, generation: int) -> None:
    """CORRECTNESS G4: an old heartbeat must not make a member lose its new assignment."""
    one = One().stable("t0")
    for error in (UnknownMemberId("who?"), IllegalGeneration("old"), FencedInstanceId("out")):
        assert one.core.heartbeat_failed(member, generation, error, NOW) == []
        assert one.core.commit_failed(member, generation, error, NOW) == []
    assert one.core.owned == set(parts("t0"))


@pytest.mark.parametrize("what", ["heartbeat", "commit"])
def test_the_generation_that_a_member_is_leaving_may_be_illegal_already(what: str) -> None:
    """CORRECTNESS G4, G8: it continues its heartbeats while it joins, and the next generation may begin
    before the join's answer is here. It owns what it claimed in that join: nothing is lost."""
    one = One().stable("t0")
    effects = one.feed(one.core.subscribed(["t", "u"], NOW))
    refused = one.core.heartbeat_failed if what == "heartbeat" else one.core.commit_failed
    assert refused("a", 1, IllegalGeneration("generation 1, not 2"), NOW) == []
    one.join(effects, generation=2)
    one.sync(Assignment(1, parts("t0")))
    assert one.core.owned == set(parts("t0"))


def test_a_sync_of_an_earlier_life_does_not_give_partitions() -> None:
    """CORRECTNESS G4: expelled and back again, while the old answer was on its way."""
    one = One().stable("t0")
    one.join_again()
    old = one.number
    one.feed(one.refuse("heartbeat", UnknownMemberId("who?")))
    one.join(one.effects, member="a2", generation=7)
    assert one.core.synced(old, Assignment(1, parts("t0 t1")).encode(), NOW) == []
    assert one.core.owned == frozenset()


def test_a_release_that_a_loss_overtook_releases_nothing() -> None:
    """The driver may have called on_revoked already; what is owned is then another matter."""
    one = One().stable("t0 t1")
    one.join_again()
    revoke = one.sync(Assignment(1, parts("t0"), parts("t1"), AssignmentError.NEEDS_REJOIN))[-1]
    assert isinstance(revoke, Revoke)
    effects = one.feed(one.refuse("heartbeat", UnknownMemberId("who?")))
    assert next(e for e in effects if isinstance(e, Lose)).partitions == parts("t0 t1")
    assert one.core.released(revoke.number, NOW) == []


def test_a_join_that_succeeds_after_it_was_given_up_is_undone() -> None:
    """Otherwise the group would wait a session long for a member without a process."""
    one = One()
    one.begin()
    number = one.number
    one.core.leave("closing", NOW)
    (leave,) = one.core.joined(number, MemberIdGiven("a"), NOW)
    assert isinstance(leave, SendLeave) and leave.request.members[0].member == "a"


@pytest.mark.parametrize("instance", [None, "i"])
def test_a_first_join_that_is_given_up_starts_no_heartbeats(instance: str | None) -> None:
    """The driver starts them with the answer. Those of a member that has left would keep it in the group."""
    one = One(instance=instance)
    one.begin()
    assert one.core.leave("closing", NOW) == [StopHeartbeat()]
    assert one.core.state is State.LEFT


# --- the coordinator -------------------------------------------------------------------------------


def test_a_lost_coordinator_costs_nothing_but_the_connection() -> None:
    one = One().stable("t0")
    assert one.core.coordinator_lost(NOW) == [FindCoordinator("the coordinator was lost")]
    assert one.core.coordinator_lost(NOW) == [], "it is being looked for"
    assert one.core.coordinator_found(NOW) == []
    assert one.core.state is State.STABLE
    assert one.core.owned == set(parts("t0"))


@pytest.mark.parametrize("error", [NotCoordinator("moved"), OutcomeUnknown("reset")])
@pytest.mark.parametrize("what", ["join", "sync"])
def test_a_join_waits_for_the_coordinator_and_for_the_pause(what: str, error: StrandlineError) -> None:
    """Asked again only when both are over: a dead broker that is found again is not asked in a circle."""
    for found_first in (True, False):
        one = One().stable("t0")
        effects = one.refuse(what, error)
        pause, find = effects
        assert isinstance(pause, DelayJoin) and isinstance(find, FindCoordinator)
        first, second = one.core.coordinator_found, one.core.backed_off
        if found_first:
            assert first(NOW) == []
            effects = second(pause.number, NOW)
        else:
            assert second(pause.number, NOW) == []
            effects = first(NOW)
        assert one.said(effects).owned == parts("t0")


def test_pauses_grow_until_an_assignment_comes() -> None:
    one = One().stable("t0")
    one.feed(one.core.subscribed(["u"], NOW))
    for attempt in (1, 2, 3):
        (pause,) = one.core.join_failed(one.number, CoordinatorLoading("reading"), NOW)
        assert isinstance(pause, DelayJoin) and pause.attempt == attempt
        one.feed(one.core.backed_off(pause.number, NOW))
    one.join(one.effects, generation=2)
    one.sync(Assignment(1, parts("t0")))
    one.feed(one.core.subscribed(["t"], NOW))
    assert one.core.join_failed(one.number, CoordinatorLoading("reading"), NOW)[0] == DelayJoin(12, 1)


def test_a_member_that_is_refused_again_and_again_pauses() -> None:
    """KIP-429 1.d without the circle: the first time at once, then with pauses."""
    one = One().stable("t0")
    one.feed(one.refuse("join", UnknownMemberId("who?")))
    assert one.sends(one.effects)
    assert isinstance(one.core.join_failed(one.number, UnknownMemberId("who?"), NOW)[-1], DelayJoin)


@pytest.mark.parametrize("what", ["join", "sync"])
@pytest.mark.parametrize("error", [GroupMaxSizeReached("full"), InvalidRequest("no")])
def test_permanent_errors_are_fatal(what: str, error: StrandlineError) -> None:
    """The error is reported by name; owned partitions are lost, and the group need not wait for the
    session."""
    one = One().stable("t0")
    effects = one.refuse(what, error)
    kinds = [type(e) for e in effects if not isinstance(e, LogLine | Report)]
    assert kinds == [Lose, StopHeartbeat, SendLeave, Fatal]
    assert effects[-1] == Fatal(error)


@pytest.mark.parametrize("what", ["heartbeat", "commit", "sync", "join"])
def test_a_fenced_instance_ends_and_does_not_leave_for_its_successor(what: str) -> None:
    """KIP-345: another process has the place, and everything with it."""
    one = One(instance="i").stable("t0")
    effects = one.refuse(what, FencedInstanceId("out"))
    kinds = [type(e) for e in effects if not isinstance(e, LogLine | Report)]
    assert kinds == [Lose, StopHeartbeat, Fatal]
