"""A member that gives partitions up before it joins, as its assignor says (KIP-429, CORRECTNESS G5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.consumer.core.member_effects import (
    DelayJoin,
    Effect,
    Fatal,
    FindCoordinator,
    LogLine,
    Lose,
    Report,
    Revoke,
    SendJoin,
    SendLeave,
    StopHeartbeat,
)
from strandline.consumer.core.member_states import State
from strandline.errors import (
    CoordinatorLoading,
    IllegalGeneration,
    RebalanceInProgress,
    StrandlineError,
    UnknownMemberId,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import MemberIdGiven, OwnershipKind
from strandline.vocabulary.parsing.consumer_protocol import Assignment, AssignmentError, Subscription
from tests.consumer.core.support.one_member import NOW, One, parts
from tests.consumer.core.support.own_assignor import OwnAssignor

EVERYTHING = frozenset(parts("t0 t1 t2 t3 t4 u0 u1"))


def stable(
    owned: str = "t0 t1 t2", *, leads: bool = False, cooperative: bool = True
) -> tuple[One, OwnAssignor]:
    """A member with an assignor that wants t1 and t2 released from now on, and something it does not own."""
    own = OwnAssignor()
    one = One(assignors=[own], cooperative=cooperative).stable(owned, leads=leads)
    own.log.clear()
    own.releases = frozenset(parts("t1 t2 t7 u0"))
    return one, own


def another_subscription(one: One) -> list[Effect]:
    return one.core.subscribed(["t", "u"], NOW)


def other_counts(one: One) -> list[Effect]:
    return one.core.metadata_changed({"t": 9}, NOW)


def heartbeat(one: One) -> list[Effect]:
    return one.refuse("heartbeat", RebalanceInProgress("b joined"))


def commit(one: One) -> list[Effect]:
    return one.refuse("commit", RebalanceInProgress("b joined"))


def join_first(one: One) -> None:
    """A sync is under way, before which nothing was released."""
    (own,) = one.assignors
    assert isinstance(own, OwnAssignor)
    releases, own.releases = own.releases, frozenset()
    one.join_again()
    own.releases = releases
    own.log.clear()


def sync(one: One) -> list[Effect]:
    join_first(one)
    return one.core.sync_failed(one.number, RebalanceInProgress("c left"), NOW)


def needs_rejoin(one: One) -> list[Effect]:
    """Without anything that the leader revokes."""
    join_first(one)
    return one.sync(Assignment(1, parts("t0 t1 t2"), (), AssignmentError.NEEDS_REJOIN))


def asked_for(one: One) -> list[Effect]:
    return one.core.enforced("somebody is ready", NOW)


@pytest.mark.parametrize(
    "begin",
    [another_subscription, other_counts, heartbeat, commit, sync, needs_rejoin, asked_for],
)
def test_partitions_that_the_assignor_names_are_released_before_the_join(
    begin: Callable[[One], list[Effect]],
) -> None:
    """KIP-429 a, b and e: reported as revoked, absent from the claims, and asked for once."""
    one, own = stable(leads=True)
    effects = [effect for effect in one.feed(begin(one)) if not isinstance(effect, LogLine)]
    (revoke,) = effects
    assert isinstance(revoke, Revoke) and revoke.partitions == parts("t1 t2")
    assert one.core.owned == set(parts("t0 t1 t2")), "until they are released"
    assert own.log[-1] == "release_before_join", "the leader gets the state after the release"
    report, join = one.core.released(revoke.number, NOW)
    assert isinstance(report, Report) and isinstance(join, SendJoin)
    (change,) = report.request.changes
    assert (change.kind, change.partitions) == (OwnershipKind.REVOKED, parts("t1 t2"))
    assert one.said([join]).owned == parts("t0")
    assert own.log[-2:] == ["release_before_join", "subscription_user_data"]
    assert own.log.count("release_before_join") == 1


def test_it_is_released_before_the_join_with_a_member_id_too() -> None:
    """KIP-429 c: of a member that has one, after a pause."""
    one, own = stable()
    own.releases = frozenset()
    one.feed(one.core.subscribed(["t", "u"], NOW))
    own.releases = frozenset(parts("t1"))
    (pause,) = one.feed(one.core.joined(one.number, MemberIdGiven("a2"), NOW))
    assert isinstance(pause, DelayJoin)
    (revoke,) = one.core.backed_off(pause.number, NOW)
    assert isinstance(revoke, Revoke) and revoke.partitions == parts("t1")
    effects = one.core.released(revoke.number, NOW)
    assert one.request(effects).member == "a2"
    assert one.said(effects).owned == parts("t0 t2")


def test_a_new_member_is_given_its_id_without_a_release() -> None:
    """KIP-429 c, the usual case: a member that owns nothing is not asked."""
    own = OwnAssignor()
    own.releases = EVERYTHING
    one = One(assignors=[own])
    one.begin()
    effects = one.core.joined(one.number, MemberIdGiven("a"), NOW)
    assert [type(effect) for effect in effects] == [SendJoin]
    assert "release_before_join" not in own.log


@pytest.mark.parametrize("error", [UnknownMemberId("who?"), IllegalGeneration("old")])
@pytest.mark.parametrize("what", ["heartbeat", "commit"])
def test_nothing_is_released_of_what_is_lost(what: str, error: StrandlineError) -> None:
    """KIP-429 d: others may have it already."""
    one, own = stable()
    effects = one.refuse(what, error)
    kinds = [type(effect) for effect in effects if not isinstance(effect, LogLine | Report)]
    assert kinds == [Lose, StopHeartbeat, SendJoin]
    assert "release_before_join" not in own.log


def test_the_leaders_revocations_are_released_before_those_of_the_assignor() -> None:
    """KIP-429 e."""
    one, _ = stable()
    join_first(one)
    first = one.sync(Assignment(1, parts("t0 t2"), parts("t1"), AssignmentError.NEEDS_REJOIN))[-1]
    assert isinstance(first, Revoke) and first.partitions == parts("t1")
    _, second = one.core.released(first.number, NOW)
    assert isinstance(second, Revoke) and second.partitions == parts("t2")
    assert one.said(one.core.released(second.number, NOW)).owned == parts("t0")


def test_without_a_join_nothing_is_released() -> None:
    """KIP-429 3.d: the leader revokes something, and no member waits for it."""
    one, own = stable()
    join_first(one)
    revoke = one.sync(Assignment(1, parts("t0 t2"), parts("t1")))[-1]
    assert isinstance(revoke, Revoke)
    effects = one.core.released(revoke.number, NOW)
    assert [type(effect) for effect in effects] == [Report]
    assert "release_before_join" not in own.log
    assert one.core.owned == set(parts("t0 t2"))


def test_an_eager_member_is_not_asked() -> None:
    """It gives up everything anyway."""
    one, own = stable(cooperative=False)
    (revoke,) = one.core.subscribed(["t", "u"], NOW)
    assert isinstance(revoke, Revoke) and revoke.partitions == parts("t0 t1 t2")
    assert one.sends(one.core.released(revoke.number, NOW))
    assert "release_before_join" not in own.log


def test_several_assignors_are_all_asked() -> None:
    """Each says something to the leader with the same join; the group decides by which it goes."""
    first, second = OwnAssignor("first"), OwnAssignor("second")
    one = One(assignors=[first, "sticky", second]).stable("t0 t1 t2")
    first.releases, second.releases = frozenset(parts("t0")), frozenset(parts("t2"))
    (revoke,) = one.core.subscribed(["t", "u"], NOW)
    assert isinstance(revoke, Revoke) and revoke.partitions == parts("t0 t2")


# --- it ends --------------------------------------------------------------------------------------


class AlwaysMore(OwnAssignor):
    """Wants one partition more released each time that it is asked."""

    def release_before_join(self) -> frozenset[TopicPartition]:
        super().release_before_join()
        return frozenset(parts("t0 t1 t2 t3")[: self.log.count("release_before_join")])


def test_an_assignor_that_always_wants_more_is_asked_once_a_join() -> None:
    own = AlwaysMore()
    one = One(assignors=[own]).stable("t0 t1 t2")
    (revoke,) = one.core.subscribed(["t", "u"], NOW)
    assert isinstance(revoke, Revoke) and revoke.partitions == parts("t0")
    _, join = one.core.released(revoke.number, NOW)
    assert isinstance(join, SendJoin), "it is not asked again"
    # One that is tried again is another join.
    one.feed([join])
    (pause,) = one.core.join_failed(one.number, CoordinatorLoading("reading"), NOW)
    assert isinstance(pause, DelayJoin)
    (revoke,) = one.core.backed_off(pause.number, NOW)
    assert isinstance(revoke, Revoke) and revoke.partitions == parts("t1")
    assert one.said(one.core.released(revoke.number, NOW)).owned == parts("t2")


def test_a_coordinator_that_is_lost_during_the_release_is_looked_for_before_the_join() -> None:
    """And an assignor that says the same then has nothing left to be released."""
    one, _ = stable()
    (revoke,) = one.core.subscribed(["t", "u"], NOW)
    assert isinstance(revoke, Revoke)
    assert [type(effect) for effect in one.core.coordinator_lost(NOW)] == [FindCoordinator]
    assert [type(effect) for effect in one.core.released(revoke.number, NOW)] == [Report]
    assert one.core.state is State.JOINING
    assert one.said(one.core.coordinator_found(NOW)).owned == parts("t0")


def test_nothing_is_released_without_a_coordinator() -> None:
    """Its commits would come to nothing; what is owned is read on."""
    one, own = stable()
    one.core.coordinator_lost(NOW)
    assert one.core.subscribed(["t", "u"], NOW) == []
    assert "release_before_join" not in own.log
    (revoke,) = one.core.coordinator_found(NOW)
    assert isinstance(revoke, Revoke)


# --- what may come in between ---------------------------------------------------------------------


def releasing() -> tuple[One, OwnAssignor, Revoke]:
    one, own = stable()
    (revoke,) = one.feed(one.core.subscribed(["t", "u"], NOW))
    assert isinstance(revoke, Revoke) and one.core.state is State.RELEASING
    return one, own, revoke


def test_a_loss_overtakes_the_release() -> None:
    """CORRECTNESS G4: what is released later is another matter."""
    one, _, revoke = releasing()
    effects = one.feed(one.refuse("heartbeat", UnknownMemberId("who?")))
    assert next(e for e in effects if isinstance(e, Lose)).partitions == parts("t0 t1 t2")
    assert one.said(effects) == Subscription(1, ("t", "u"), user_data=b"for the leader")
    assert one.core.released(revoke.number, NOW) == []
    assert one.core.owned == frozenset()


def test_a_member_that_leaves_during_the_release_does_not_join() -> None:
    one, own, revoke = releasing()
    assert one.core.leave("closing", NOW) == []
    _, rest = one.core.released(revoke.number, NOW)
    assert isinstance(rest, Revoke) and rest.partitions == parts("t0")
    effects = one.core.released(rest.number, NOW)
    assert [type(effect) for effect in effects] == [Report, StopHeartbeat, SendLeave]
    assert own.log.count("release_before_join") == 1


def test_a_rebalance_learned_of_during_the_release_is_joined_once() -> None:
    one, own, revoke = releasing()
    assert one.refuse("heartbeat", RebalanceInProgress("c joined")) == []
    effects = one.core.released(revoke.number, NOW)
    assert [type(effect) for effect in effects] == [Report, SendJoin]
    assert own.log.count("release_before_join") == 1


def test_a_subscription_that_changes_during_the_release_is_what_is_joined_for() -> None:
    one, _, revoke = releasing()
    assert one.core.subscribed(["t", "v"], NOW) == []
    assert one.said(one.core.released(revoke.number, NOW)).topics == ("t", "v")


def test_a_member_overdue_during_the_release_loses_everything() -> None:
    one, _, revoke = releasing()
    effects = one.core.poll_overdue(NOW)
    assert next(e for e in effects if isinstance(e, Lose)).partitions == parts("t0 t1 t2")
    assert one.core.released(revoke.number, NOW) == []
    assert one.core.state is State.OVERDUE


@pytest.mark.parametrize("function", ["release_before_join", "subscription_user_data"])
def test_an_assignor_that_fails_before_a_join_ends_the_member_by_name(function: str) -> None:
    """It must not continue with half of its data."""
    one, own = stable()
    own.releases, own.fails = frozenset(), function
    effects = one.core.subscribed(["t", "u"], NOW)
    kinds = [type(effect) for effect in effects if not isinstance(effect, LogLine | Report)]
    assert kinds == [Lose, StopHeartbeat, SendLeave, Fatal]
    fatal = effects[-1]
    assert isinstance(fatal, Fatal) and "assignor 'own': ZeroDivisionError" in fatal.error.message
    assert one.core.state is State.FATAL
