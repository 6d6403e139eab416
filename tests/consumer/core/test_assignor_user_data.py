"""A user's assignors that send data to each member, and learn the outcome."""

from __future__ import annotations

import pytest

from strandline.consumer.core.assignors.assignor import AssignorFailed
from strandline.consumer.core.leader_plan import ParsedMember, plan
from strandline.consumer.core.member_effects import Assign, Effect, Fatal, Lose, Report, SendSync
from strandline.consumer.core.member_states import State
from strandline.vocabulary.groups import OwnershipKind
from strandline.vocabulary.parsing.consumer_protocol import Assignment, AssignmentError, Subscription
from tests.consumer.core.support.one_member import NOW, One, parts
from tests.consumer.core.support.own_assignor import OwnAssignor


def cooperative(owned: str = "") -> ParsedMember:
    return ParsedMember(Subscription(1, ("t",), parts(owned), 5 if owned else -1))


def eager() -> ParsedMember:
    return ParsedMember(Subscription(0, ("t",)))


def led(own: OwnAssignor, *, instance: str | None = None, partitions: int = 2) -> tuple[One, SendSync]:
    """A member that leads a group with "b", and its sync with the plan."""
    one = One(assignors=[own], instance=instance)
    one.begin()
    one.join(one.effects, leads=True, others={"b": Subscription(1, ("t",))})
    (sync,) = one.feed(one.core.metadata(one.number, {"t": partitions}, NOW))
    assert isinstance(sync, SendSync)
    return one, sync


def given(sync: SendSync) -> dict[str, bytes]:
    """The bytes in each member's assignment."""
    return {name: Assignment.decode(data).user_data for name, data in sync.request.assignments.items()}


# --- the leader -----------------------------------------------------------------------------------


def test_each_member_gets_the_assignors_data_for_it() -> None:
    """Asked once a rebalance, and `assign` not at all."""
    own = OwnAssignor()
    one, sync = led(own)
    assert given(sync) == {"a": b"a", "b": b"b"}
    assert one.core.metadata(one.number, {"t": 2}, NOW) == [], "a plan is made once"
    assert own.log == ["subscription_user_data", "assign_with_user_data"]


@pytest.mark.parametrize(
    "members", [{"a": cooperative("t0"), "b": cooperative()}, {"a": eager(), "b": eager()}]
)
def test_members_of_either_protocol_are_notified(members: dict[str, ParsedMember]) -> None:
    """The assignment of both versions has room for it."""
    own = OwnAssignor()
    made = plan(members, {"t": 2}, own)
    assert {name: assignment.user_data for name, assignment in made.assignments.items()} == {
        "a": b"a",
        "b": b"b",
    }
    assert own.log == ["assign_with_user_data"]


def test_a_member_without_data_has_none() -> None:
    own = OwnAssignor()
    own.to_send = {"b": b"only you"}
    made = plan({"a": cooperative(), "b": cooperative()}, {"t": 2}, own)
    assert [made.assignments[name].user_data for name in "ab"] == [b"", b"only you"]


def test_in_a_mixed_group_no_member_gets_user_data() -> None:
    """The data would not fit the changed result: `assign` is called, once for all."""
    own = OwnAssignor()
    made = plan({"a": cooperative("t0"), "b": eager()}, {"t": 2}, own)
    assert {assignment.user_data for assignment in made.assignments.values()} == {b""}
    assert own.log == ["assign"]


@pytest.mark.parametrize(
    ("to_send", "why"),
    [({"c": b"who?"}, "sends user data to c, not of this group"), ({"a": "text"}, "not 'text'")],
)
def test_an_assignor_that_returns_invalid_data_is_named(to_send: dict[str, bytes], why: str) -> None:
    own = OwnAssignor()
    own.to_send = to_send
    with pytest.raises(AssignorFailed, match=f"assignor 'own': .*{why}"):
        plan({"a": cooperative(), "b": cooperative()}, {"t": 2}, own)


def test_an_assignor_that_fails_to_assign_ends_the_leader_by_name() -> None:
    own = OwnAssignor()
    own.fails = "assign_with_user_data"
    one = One(assignors=[own])
    one.begin()
    one.join(one.effects, leads=True)
    fatal = one.core.metadata(one.number, {"t": 2}, NOW)[-1]
    assert isinstance(fatal, Fatal) and "assignor 'own': ZeroDivisionError" in fatal.error.message


# --- each member ----------------------------------------------------------------------------------


def test_the_assignor_gets_its_data_and_the_owned_partitions() -> None:
    """Once a sync; without what is yet to be revoked, though that is still owned."""
    own = OwnAssignor()
    one = One(assignors=[own]).stable("t0 t1")
    assert own.heard == [(b"", frozenset(parts("t0 t1")), 1)]
    one.join_again()
    needs_rejoin = AssignmentError.NEEDS_REJOIN
    one.sync(Assignment(1, parts("t0 t5"), parts("t1"), needs_rejoin, b"for you"))
    assert own.heard[1:] == [(b"for you", frozenset(parts("t0 t5")), 2)]
    assert one.core.owned == set(parts("t0 t1 t5"))


def test_the_assignor_is_called_before_any_listener() -> None:
    """Listeners are called by effects, and those come after the call."""
    own = OwnAssignor()
    one = One(assignors=[own])
    one.begin()
    one.join(one.effects)
    assert own.heard == []
    effects = one.sync(Assignment(1, parts("t0"), user_data=b"for you"))
    assert own.heard == [(b"for you", frozenset(parts("t0")), 1)]
    assert [effect for effect in effects if isinstance(effect, Assign)]


@pytest.mark.parametrize("data", [b"", Assignment(1, ()).encode()])
def test_an_empty_assignment_is_reported_to_the_assignor_too(data: bytes) -> None:
    """Also that of a member that the leader forgot."""
    own = OwnAssignor()
    one = One(assignors=[own])
    one.begin()
    one.join(one.effects)
    one.core.synced(one.number, data, NOW)
    assert own.heard == [(b"", frozenset(), 1)]


def test_only_the_assignor_by_which_the_group_goes_hears_of_it() -> None:
    wanted, used = OwnAssignor("wanted"), OwnAssignor("used")
    one = One(assignors=[wanted, used])
    one.begin()
    one.join(one.effects, protocol="used")
    one.sync(Assignment(1, parts("t0")))
    assert wanted.heard == []
    assert len(used.heard) == 1


def test_an_ignored_answer_is_not_reported_to_the_assignor() -> None:
    """CORRECTNESS G4: neither an old one, nor one that takes what it does not revoke."""
    own = OwnAssignor()
    one = One(assignors=[own]).stable("t0 t1")
    one.join_again()
    assert one.core.synced(one.number + 1, Assignment(1, parts("t0 t1")).encode(), NOW) == []
    assert isinstance(one.sync(Assignment(1, parts("t0")))[-1], Fatal)
    assert len(own.heard) == 1


def test_an_assignor_that_fails_in_on_assignment_ends_the_member_before_any_listener() -> None:
    """New partitions are neither assigned nor lost: a report of their loss would be one of something that
    never was."""
    own = OwnAssignor()
    one = One(assignors=[own]).stable("t0")
    one.join_again()
    own.fails = "on_assignment"
    effects = one.sync(Assignment(1, parts("t0 t1")))
    fatal = effects[-1]
    assert isinstance(fatal, Fatal) and "assignor 'own': ZeroDivisionError" in fatal.error.message
    assert _lost(effects) == parts("t0")
    (report,) = [effect.request for effect in effects if isinstance(effect, Report)]
    assert [(change.kind, change.partitions) for change in report.changes] == [
        (OwnershipKind.LOST, parts("t0"))
    ]
    assert not [effect for effect in effects if isinstance(effect, Assign)]


def _lost(effects: list[Effect]) -> tuple[tuple[str, int], ...]:
    (lose,) = [effect for effect in effects if isinstance(effect, Lose)]
    return lose.partitions


# --- static members -------------------------------------------------------------------------------


@pytest.mark.parametrize("to_send", [b"", b"four", b"and more", b"more than eight"])
def test_a_static_member_gets_its_data_beside_the_leaders_note(to_send: bytes) -> None:
    """KIP-345, CORRECTNESS G13: neither takes the other's place, however long it is."""
    own = OwnAssignor()
    own.to_send = {"a": to_send}
    one, sync = led(own, instance="i")
    one.core.synced(one.number, sync.request.assignments["a"], NOW)
    assert [sent_data for sent_data, _, _ in own.heard] == [to_send]
    assert one.core.state is State.STABLE


@pytest.mark.parametrize(("partitions", "joins"), [(2, False), (3, True)])
def test_a_static_leader_that_comes_back_gets_its_data_and_knows_the_counts(
    partitions: int, joins: bool
) -> None:
    """CORRECTNESS G13, KIP-814: the plan stands, with all that was said beside it."""
    _, sync = led(OwnAssignor(), instance="i")
    own = OwnAssignor()
    back = One(instance="i", assignors=[own])
    back.begin()
    back.join(back.effects, leads=True, skip=True)
    back.feed(back.core.metadata(back.number, {"t": partitions}, NOW))
    effects = back.core.synced(back.number, sync.request.assignments["a"], NOW)
    assert own.heard == [(b"a", frozenset(parts("t0")), 1)]
    assert "assign_with_user_data" not in own.log
    assert back.sends(effects) is joins


def test_a_static_member_that_comes_back_for_other_topics_takes_none_that_it_does_not_want() -> None:
    """KIP-345: and its assignor hears of what it took."""
    _, sync = led(OwnAssignor(), instance="i")
    own = OwnAssignor()
    back = One(instance="i", assignors=[own])
    back.core.subscribed(["u"], NOW)
    back.feed(back.core.coordinator_found(NOW))
    back.join(back.effects)
    effects = back.core.synced(back.number, sync.request.assignments["a"], NOW)
    assert own.heard == [(b"a", frozenset(), 1)]
    assert back.request(effects).reason == "its subscription changed while it was away"


@pytest.mark.parametrize("sent_data", [b"four", b"to eight"])
def test_user_data_of_another_member_is_not_taken_for_a_note(sent_data: bytes) -> None:
    """A member that is not static has none, even if its data are as long as one."""
    own = OwnAssignor()
    one = One(assignors=[own])
    one.begin()
    one.join(one.effects)
    one.sync(Assignment(1, parts("t0"), user_data=sent_data))
    assert one.core.state is State.STABLE
    assert own.heard == [(sent_data, frozenset(parts("t0")), 1)]
