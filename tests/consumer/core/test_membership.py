"""A member of a group, sentence by sentence (KIP-429; CORRECTNESS, groups).

`test_leader_state.py` has what it does as leader, `test_membership_calls.py` what may become of its calls.
"""

from __future__ import annotations

import pytest

from strandline.consumer.core.member_effects import (
    Assign,
    DelayJoin,
    Effect,
    Fatal,
    Level,
    LogLine,
    Lose,
    Report,
    Revoke,
    SendJoin,
    SendLeave,
    StartHeartbeat,
    StopHeartbeat,
)
from strandline.consumer.core.member_states import State
from strandline.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    StrandlineError,
    UnknownMemberId,
)
from strandline.vocabulary.groups import NO_GENERATION, Joined, MemberIdGiven, OwnershipKind
from strandline.vocabulary.parsing.consumer_protocol import Assignment, AssignmentError, Subscription
from tests.consumer.core.support.one_member import NOW, One, parts

# --- before the join: the five triggers ------------------------------------------------------------


def test_a_new_subscription_keeps_everything_and_says_what_is_owned() -> None:
    """KIP-429 1.a: do not revoke, do not call the listener, encode what is assigned."""
    one = One().stable("t0 t1")
    effects = one.core.subscribed(["t", "u"], NOW)
    assert [type(effect) for effect in effects] == [SendJoin]
    assert one.said(effects) == Subscription(1, ("t", "u"), parts("t0 t1"), 1)
    assert one.core.owned == set(parts("t0 t1"))


@pytest.mark.parametrize("counts", [{"t": 5}, {"t": 0}])
def test_new_partition_counts_make_the_leader_join_again_with_everything(counts: dict[str, int]) -> None:
    """KIP-429 1.a: partitions were added, or a topic has gone."""
    one = One().stable("t0 t1", leads=True)
    effects = one.core.metadata_changed(counts, NOW)
    assert [type(effect) for effect in effects] == [SendJoin]
    assert one.said(effects).owned == parts("t0 t1")


def test_the_leader_watches_the_topics_of_the_whole_group() -> None:
    """KIP-429 1.a: others may subscribe to what it does not."""
    one = One().stable("t0", leads=True, others={"b": Subscription(1, ("u",))})
    assert one.core.watched == {"t", "u"}
    assert one.core.metadata_changed({"t": 2, "u": 2, "v": 9}, NOW) == []
    assert one.sends(one.core.metadata_changed({"u": 3}, NOW))


def test_a_follower_leaves_partition_counts_to_the_leader() -> None:
    one = One().stable("t0")
    assert one.core.metadata_changed({"t": 77}, NOW) == []
    assert one.core.watched == frozenset()


@pytest.mark.parametrize("what", ["heartbeat", "commit"])
def test_a_rebalance_under_way_keeps_everything(what: str) -> None:
    """KIP-429 1.b: from a heartbeat's or a commit's answer."""
    one = One().stable("t0 t1")
    effects = one.refuse(what, RebalanceInProgress("b joined (caused by b)"))
    assert [type(effect) for effect in effects] == [SendJoin]
    assert one.said(effects).owned == parts("t0 t1")
    assert one.request(effects).reason == "b joined (caused by b)"


def test_a_rebalance_learned_from_a_syncs_answer_keeps_everything() -> None:
    """KIP-429 1.b, and G2: the claim is as old as the assignment that made it."""
    one = One().stable("t0")
    one.join_again()
    effects = one.core.sync_failed(one.number, RebalanceInProgress("c left"), NOW)
    assert [type(effect) for effect in effects] == [SendJoin]
    assert one.said(effects) == Subscription(1, ("t",), parts("t0"), 1)


def test_a_member_id_that_is_required_is_taken_and_nothing_else_changes() -> None:
    """KIP-429 1.c."""
    one = One()
    first = one.begin()
    assert one.request(first).member == ""
    effects = one.core.joined(one.number, MemberIdGiven("a"), NOW)
    assert [type(effect) for effect in effects] == [SendJoin]
    assert one.request(effects).member == "a"
    assert one.said(effects) == one.said(first)


def test_a_new_member_id_is_not_requested_without_a_pause() -> None:
    """A coordinator that always answers with another id must not be asked in a tight loop."""
    one = One()
    one.begin()
    one.feed(one.core.joined(one.number, MemberIdGiven("a"), NOW))
    assert one.core.joined(one.number, MemberIdGiven("a2"), NOW) == [DelayJoin(3, 1)]


@pytest.mark.parametrize("error", [UnknownMemberId("who?"), IllegalGeneration("old")])
@pytest.mark.parametrize("what", ["heartbeat", "commit", "sync", "join"])
def test_an_expelled_member_loses_everything_and_joins_with_nothing(
    what: str, error: StrandlineError
) -> None:
    """KIP-429 1.d: from join, sync, commit or heartbeat; lost, so without a commit or on_revoked."""
    one = One().stable("t0 t1")
    effects = one.refuse(what, error)
    kinds = [type(effect) for effect in effects if not isinstance(effect, LogLine | Report)]
    assert kinds == [Lose, StopHeartbeat, SendJoin]
    assert next(e for e in effects if isinstance(e, Lose)).partitions == parts("t0 t1")
    assert one.said(effects) == Subscription(1, ("t",))
    assert one.core.owned == frozenset()


def test_only_what_the_error_says_is_reset() -> None:
    """CORRECTNESS G3: an illegal generation leaves the member its id."""
    one = One().stable("t0")
    assert one.request(one.refuse("heartbeat", IllegalGeneration("old"))).member == "a"
    assert one.core.generation == NO_GENERATION
    one = One().stable("t0")
    assert one.request(one.refuse("heartbeat", UnknownMemberId("who?"))).member == ""


def test_partitions_named_for_revocation_are_revoked_before_the_next_join() -> None:
    """KIP-429 1.e: the join has the newly formed set, and comes at once."""
    one = One().stable("t0 t1 t2")
    one.join_again()
    effects = one.sync(Assignment(1, parts("t0"), parts("t1 t2"), AssignmentError.NEEDS_REJOIN))
    revoke = effects[-1]
    assert isinstance(revoke, Revoke) and revoke.partitions == parts("t1 t2")
    assert one.core.owned == set(parts("t0 t1 t2")), "until they are released"
    effects = one.core.released(revoke.number, NOW)
    assert one.said(effects) == Subscription(1, ("t",), parts("t0"), 2)


def test_a_member_that_has_nothing_to_revoke_joins_again_at_once_too() -> None:
    """KIP-429 3.d: NEEDS_REJOIN goes to all members. Its claim is of this generation, so that the
    coordinator sees another subscription than the last."""
    one = One()
    one.begin()
    one.join(one.effects)
    effects = one.sync(Assignment(1, (), (), AssignmentError.NEEDS_REJOIN))
    assert [type(e) for e in effects] == [LogLine, Assign, SendJoin]
    assert one.said(effects) == Subscription(1, ("t",), (), 1)


def test_each_assignor_is_offered_in_order() -> None:
    """The most wanted first."""
    one = One(assignors=("range", "sticky"))
    assert [p.name for p in one.request(one.begin()).protocols] == ["range", "sticky"]


# --- after the sync --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assigned", "revoked"), [("", ""), ("t0", ""), ("t0", "t2"), ("t2", "t0 t1"), ("", "t0 t1")]
)
def test_an_assignment_that_takes_what_it_does_not_revoke_is_fatal(assigned: str, revoked: str) -> None:
    """KIP-429 3.a: assigned ⊇ owned − revoked, or log the values, leave, and end."""
    one = One().stable("t0 t1 t3")
    one.join_again()
    effects = one.sync(Assignment(1, parts(assigned), parts(revoked)))
    line = next(e for e in effects if isinstance(e, LogLine))
    assert line.level is Level.ERROR
    assert "owned [t-0, t-1, t-3]" in line.text and "lacks [" in line.text
    kinds = [type(e) for e in effects if not isinstance(e, LogLine | Report)]
    assert kinds == [Lose, StopHeartbeat, SendLeave, Fatal]
    assert next(e for e in effects if isinstance(e, Lose)).partitions == parts("t0 t1 t3")
    assert one.core.state is State.FATAL


def test_added_is_reported_before_revoked_and_then_it_joins() -> None:
    """KIP-429 3.b, 3.c, 3.d, in this order."""
    one = One().stable("t0 t1")
    one.join_again()
    effects = one.sync(Assignment(1, parts("t0 t5"), parts("t1"), AssignmentError.NEEDS_REJOIN))
    first, second = [effect for effect in effects if isinstance(effect, Assign | Revoke | SendJoin)]
    assert first == Assign(parts("t5"), parts("t0 t1 t5"), 2)
    assert isinstance(second, Revoke) and second.partitions == parts("t1")
    assert one.said(one.core.released(second.number, NOW)).owned == parts("t0 t5")


def test_a_kept_partition_is_not_reported_again() -> None:
    """KIP-429 3.b: only the newly added ones."""
    one = One().stable("t0 t1")
    one.join_again()
    effects = one.sync(Assignment(1, parts("t0 t1")))
    assert [type(effect) for effect in effects] == [LogLine]
    assert one.core.state is State.STABLE


def test_the_first_assignment_is_reported_even_if_empty() -> None:
    """A listener hears that its member has joined."""
    one = One()
    one.begin()
    one.join(one.effects)
    assert Assign((), (), 1) in one.sync(Assignment(1, ()))


def test_without_needs_rejoin_a_member_stays_after_it_revoked() -> None:
    """KIP-429 3.d: NONE completes."""
    one = One().stable("t0 t1")
    one.join_again()
    revoke = one.sync(Assignment(1, parts("t0"), parts("t1")))[-1]
    assert isinstance(revoke, Revoke)
    effects = one.core.released(revoke.number, NOW)
    assert [type(effect) for effect in effects] == [Report]
    assert one.core.state is State.STABLE


def test_a_rebalance_that_begins_during_a_release_is_joined_after_it() -> None:
    one = One().stable("t0 t1")
    one.join_again()
    revoke = one.sync(Assignment(1, parts("t0"), parts("t1")))[-1]
    assert isinstance(revoke, Revoke)
    assert one.refuse("heartbeat", RebalanceInProgress("c joined")) == []
    assert one.said(one.core.released(revoke.number, NOW)).owned == parts("t0")


def test_the_group_is_known_in_its_new_generation_before_anything_is_revoked() -> None:
    """CORRECTNESS G11: on_revoked commits in the generation that the group is in."""
    one = One().stable("t0 t1")
    one.join_again()
    one.sync(Assignment(1, parts("t0"), parts("t1"), AssignmentError.NEEDS_REJOIN))
    assert (one.core.state, one.core.generation) == (State.RELEASING, 2)


def test_an_assignment_of_an_old_leader_is_checked_like_any_other() -> None:
    """KIP-429: a leader with old code may read V1 and answer V0. Valid assignments are taken, others are
    fatal."""
    one = One().stable("t0")
    one.join_again()
    one.sync(Assignment(0, parts("t0 t1")))
    assert one.core.owned == set(parts("t0 t1"))
    one.join_again()
    assert isinstance(one.sync(Assignment(0, parts("t1")))[-1], Fatal)


@pytest.mark.parametrize("data", [b"\x00", b"garbage!", b"\x00\x01"])
def test_an_assignment_that_cannot_be_read_is_fatal(data: bytes) -> None:
    one = One().stable("t0")
    one.join_again()
    fatal = one.core.synced(one.number, data, NOW)[-1]
    assert isinstance(fatal, Fatal) and isinstance(fatal.error, InconsistentGroupProtocol)


def test_no_bytes_are_an_empty_assignment() -> None:
    """A coordinator gives them to a member that the leader forgot."""
    one = One()
    one.begin()
    one.join(one.effects)
    assert Assign((), (), 1) in one.core.synced(one.number, b"", NOW)


# --- eager members ---------------------------------------------------------------------------------


@pytest.mark.parametrize("trigger", ["subscription", "heartbeat", "commit", "metadata"])
def test_an_eager_member_gives_everything_up_before_it_joins(trigger: str) -> None:
    """KIP-429: the rebalance behaviour of V0, on every way into a join (CORRECTNESS G5)."""
    one = One(cooperative=False).stable("t0 t1", leads=True)
    if trigger == "subscription":
        effects = one.core.subscribed(["u"], NOW)
    elif trigger == "metadata":
        effects = one.core.metadata_changed({"t": 9}, NOW)
    else:
        effects = one.refuse(trigger, RebalanceInProgress("c joined"))
    (revoke,) = effects
    assert isinstance(revoke, Revoke) and revoke.partitions == parts("t0 t1")
    effects = one.core.released(revoke.number, NOW)
    assert one.said(effects).version == 0
    assert one.core.owned == frozenset()


def test_an_eager_member_gets_its_whole_assignment_every_time() -> None:
    one = One(cooperative=False).stable("t0 t1")
    one.join_again()
    assert Assign(parts("t0"), parts("t0"), 2) in one.sync(Assignment(0, parts("t0")))


def test_an_eager_member_on_new_code_understands_the_new_version() -> None:
    """KIP-429's upgrade: in the second bounce the leader may be a cooperative member."""
    one = One(cooperative=False).stable("t0")
    one.join_again()
    one.sync(Assignment(1, parts("t0 t1")))
    assert one.core.owned == set(parts("t0 t1"))


# --- leaving ---------------------------------------------------------------------------------------


def test_leaving_releases_everything_first() -> None:
    """docs/design.md: all callbacks on close."""
    one = One().stable("t0 t1")
    (revoke,) = one.core.leave("closing", NOW)
    assert isinstance(revoke, Revoke) and revoke.partitions == parts("t0 t1")
    effects = one.core.released(revoke.number, NOW)
    assert [type(effect) for effect in effects] == [Report, StopHeartbeat, SendLeave]
    assert one.core.state is State.LEFT


def test_leaving_in_the_middle_of_a_release_releases_the_rest_too() -> None:
    one = One().stable("t0 t1")
    one.join_again()
    first = one.sync(Assignment(1, parts("t0"), parts("t1"), AssignmentError.NEEDS_REJOIN))[-1]
    assert isinstance(first, Revoke)
    assert one.core.leave("closing", NOW) == []
    second = one.core.released(first.number, NOW)[-1]
    assert isinstance(second, Revoke) and second.partitions == parts("t0")
    assert isinstance(one.core.released(second.number, NOW)[-1], SendLeave)


def test_a_static_member_stays_known_when_it_leaves() -> None:
    """KIP-345: it may come back before its session ends."""
    one = One(instance="i").stable("t0")
    (revoke,) = one.core.leave("closing", NOW)
    assert isinstance(revoke, Revoke)
    effects = one.core.released(revoke.number, NOW)
    assert [type(effect) for effect in effects] == [Report, StopHeartbeat]


@pytest.mark.parametrize(("error", "kinds"), [(UnknownMemberId, []), (IllegalGeneration, [SendLeave])])
def test_a_member_that_is_expelled_while_it_leaves_has_left(
    error: type[StrandlineError], kinds: list[type[Effect]]
) -> None:
    one = One().stable("t0")
    one.core.leave("closing", NOW)
    effects = one.refuse("heartbeat", error("late"))
    assert any(isinstance(effect, Lose) for effect in effects)
    assert [type(effect) for effect in effects if isinstance(effect, SendLeave | SendJoin)] == kinds
    assert one.core.state is State.LEFT


def test_a_member_that_does_not_poll_leaves_and_comes_back_when_it_does() -> None:
    """Its partitions are lost: it is unknown when its handler will end."""
    one = One().stable("t0")
    effects = one.core.poll_overdue(NOW)
    assert effects[0] == LogLine(
        Level.WARNING, "member a of group g leaves: no get call within max_poll_interval_ms"
    )
    kinds = [type(e) for e in effects if not isinstance(e, LogLine | Report)]
    assert kinds == [Lose, StopHeartbeat, SendLeave]
    assert one.core.state is State.OVERDUE
    assert one.said(one.core.polled(NOW)) == Subscription(1, ("t",))


def test_a_member_that_left_may_subscribe_again() -> None:
    one = One().stable("")
    one.core.leave("unsubscribed", NOW)
    assert one.request(one.core.subscribed(["u"], NOW)).member == ""


# --- reports ---------------------------------------------------------------------------------------


def test_every_change_of_ownership_is_reported_in_its_generation() -> None:
    """The content of `__group_events`: assigned, revoked at the release, lost under the former member id."""
    one = One().stable("t0 t1")
    one.join_again()
    effects = one.sync(Assignment(1, parts("t0 t2"), parts("t1"), AssignmentError.NEEDS_REJOIN))
    effects += one.core.released(one.number_of(effects, Revoke), NOW)
    effects += one.refuse("heartbeat", UnknownMemberId("who?"))
    reports = [e.request for e in effects if isinstance(e, Report)]
    assert [(r.member, r.generation) for r in reports] == [("a", 2)] * 3
    changes = [r.changes[0] for r in reports]
    assert [(c.kind, c.partitions, c.generation, c.at_ms) for c in changes] == [
        (OwnershipKind.ASSIGNED, parts("t2"), 2, NOW),
        (OwnershipKind.REVOKED, parts("t1"), 2, NOW),
        (OwnershipKind.LOST, parts("t0 t2"), 2, NOW),
    ]


def test_a_rebalance_is_reported_with_its_reason_and_its_cause() -> None:
    one = One()
    one.begin()
    effects = one.core.joined(one.number, Joined("a", 4, "sticky", "b", reason="b left", caused_by="b"), NOW)
    assert effects[:2] == [
        StartHeartbeat("a", 4),
        LogLine(Level.INFO, "member a of group g joined generation 4: b left (caused by b); b leads"),
    ]
