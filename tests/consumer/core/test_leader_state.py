"""A member that leads its generation (KIP-429, 2; CORRECTNESS G13)."""

from __future__ import annotations

from strandline.consumer.core.member_effects import (
    Fatal,
    Level,
    LogLine,
    NeedMetadata,
    SendSync,
)
from strandline.consumer.core.member_states import State
from strandline.vocabulary.parsing.consumer_protocol import Assignment, Subscription
from tests.consumer.core.support.one_member import NOW, One, parts


def test_the_leader_looks_up_what_any_member_subscribes_to_and_assigns_it() -> None:
    """KIP-429 2: after getting the subscriptions and the owned partitions of all."""
    one = One()
    one.begin()
    effects = one.join(one.effects, leads=True, others={"b": Subscription(1, ("u",))})
    need = effects[-1]
    assert isinstance(need, NeedMetadata) and need.topics == ("t", "u")
    (sync,) = one.core.metadata(need.number, {"t": 1, "u": 1}, NOW)
    assert isinstance(sync, SendSync)
    given = {name: Assignment.decode(data).assigned for name, data in sync.request.assignments.items()}
    assert given == {"a": parts("t0"), "b": parts("u0")}


def test_a_subscription_that_cannot_be_read_gets_nothing_and_is_named() -> None:
    one = One()
    one.begin()
    effects = one.join(one.effects, leads=True, garbage={"x": b"\x00"})
    assert any(isinstance(e, LogLine) and "member x gets nothing" in e.text for e in effects)
    (sync,) = one.core.metadata(one.number, {"t": 1}, NOW)
    assert isinstance(sync, SendSync)
    assert Assignment.decode(sync.request.assignments["x"]).assigned == ()
    assert Assignment.decode(sync.request.assignments["a"]).assigned == parts("t0")


def test_a_group_that_stays_mixed_logs_it_with_the_members() -> None:
    """docs/design.md: in a warning of the leader."""
    one = One()
    one.begin()
    one.join(one.effects, leads=True, others={"b": Subscription(0, ("t",))})
    effects = one.core.metadata(one.number, {"t": 1}, NOW)
    assert isinstance(effects[0], LogLine) and effects[0].level is Level.WARNING
    assert "eager b; cooperative a" in effects[0].text


def test_a_change_while_the_leader_assigned_is_not_overlooked() -> None:
    """KIP-429 1.a: heard of between the plan and its assignment."""
    one = One()
    one.begin()
    one.join(one.effects, leads=True)
    one.feed(one.core.metadata(one.number, {"t": 1}, NOW))
    assert one.core.metadata_changed({"t": 2}, NOW) == []
    effects = one.sync(Assignment(1, parts("t0")))
    assert one.request(effects).reason == "topic t has 2 partitions, had 1"


def test_a_subscription_that_changed_during_the_join_is_joined_for_again() -> None:
    one = One()
    one.begin()
    assert one.core.subscribed(["t", "u"], NOW) == []
    one.join(one.effects)
    assert one.said(one.sync(Assignment(1, ()))).topics == ("t", "u")


def test_an_unknown_protocol_of_the_group_is_fatal() -> None:
    one = One()
    one.begin()
    one.join(one.effects, leads=True, protocol="astrology")
    fatal = one.core.metadata(one.number, {}, NOW)[-1]
    assert isinstance(fatal, Fatal) and "astrology" in fatal.error.message


def test_a_returning_static_leader_makes_no_plan() -> None:
    """CORRECTNESS G13, KIP-814: the group keeps the assignment, and with it a digest of the counts."""
    one = One(instance="i")
    one.begin()
    one.join(one.effects, leads=True)
    (sync,) = one.core.metadata(one.number, {"t": 2}, NOW)
    assert isinstance(sync, SendSync)
    kept = sync.request.assignments["a"]

    back = One(instance="i")
    back.begin()
    back.join(back.effects, leads=True, skip=True)
    (sync,) = back.core.metadata(back.number, {"t": 2}, NOW)
    assert isinstance(sync, SendSync) and sync.request.assignments == {}
    back.feed([sync])
    back.core.synced(back.number, kept, NOW)
    assert back.core.state is State.STABLE
    assert back.core.owned == set(parts("t0 t1"))
    assert back.sends(back.core.metadata_changed({"t": 3}, NOW)), "and it continues to watch"


def test_a_static_leader_notices_what_changed_while_it_was_away() -> None:
    """CORRECTNESS G13: its plan was made with other counts than there are now."""
    one = One(instance="i")
    one.begin()
    one.join(one.effects, leads=True)
    (sync,) = one.core.metadata(one.number, {"t": 2}, NOW)
    assert isinstance(sync, SendSync)
    back = One(instance="i")
    back.begin()
    back.join(back.effects, leads=True, skip=True)
    back.feed(back.core.metadata(back.number, {"t": 3}, NOW))
    effects = back.core.synced(back.number, sync.request.assignments["a"], NOW)
    assert back.request(effects).reason == "partition counts changed while the leader was away"
