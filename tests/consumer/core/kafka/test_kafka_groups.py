"""One strandline member in a group with Kafka clients: what it says, and how it reads the others
(KIP-429 as released; CORRECTNESS G2, G17).
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from strandline.consumer.core.assignors.assignor import MemberSubscription
from strandline.consumer.core.assignors.registry import BUILT_IN, DEFAULTS
from strandline.consumer.core.leader_note import mark, note
from strandline.consumer.core.leader_plan import Consensus, ParsedMember, Plan, plan
from strandline.consumer.core.member_effects import Assign, Fatal, Revoke, SendSync
from strandline.consumer.core.member_states import State
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import GroupMember, Joined
from strandline.vocabulary.parsing.consumer_protocol import (
    COOPERATIVE_STICKY,
    DRAFT_VERSION,
    EAGER_VERSION,
    RELEASED_VERSION,
    Assignment,
    Subscription,
    generation_data,
)
from tests.consumer.core.support.kafka_bytes import kafka_assignment, kafka_subscription
from tests.consumer.core.support.one_member import NOW, One, parts


def read(version: int, owned: str = "", generation: int = -1) -> ParsedMember:
    """A Kafka client's member that subscribes to t."""
    data = kafka_subscription(version, ("t",), parts(owned), generation)
    return ParsedMember(Subscription.decode(data))


def assigned(made: Plan) -> Mapping[str, tuple[TopicPartition, ...]]:
    return {name: assignment.assigned for name, assignment in made.assignments.items()}


def released_group(**stable: str) -> One:
    """A cooperative member of a group on `cooperative-sticky`, in generation 1."""
    one = One(assignors=[COOPERATIVE_STICKY])
    one.join(one.begin())
    one.feed(one.core.synced(one.number, kafka_assignment(3, parts(stable["owned"])), NOW))
    assert one.core.state is State.STABLE
    return one


# --- what it says -------------------------------------------------------------------------------


@pytest.mark.parametrize("cooperative", [True, False])
def test_each_assignors_subscription_has_the_form_of_its_name(cooperative: bool) -> None:
    """Version 3 under `cooperative-sticky` only: under another name a leader takes it for an eager Kafka
    client's. An eager member claims nothing under any."""
    one = One(cooperative=cooperative, assignors=list(BUILT_IN))
    one.stable("t0")
    effects = one.feed(one.core.subscribed(["t", "u"], NOW))
    if not cooperative:
        effects = one.feed(one.core.released(one.number, NOW))
    said = {p.name: Subscription.decode(p.metadata) for p in one.request(effects).protocols}
    other = DRAFT_VERSION if cooperative else EAGER_VERSION
    assert {name: one.version for name, one in said.items()} == {
        "range": other,
        "roundrobin": other,
        "sticky": other,
        COOPERATIVE_STICKY: RELEASED_VERSION,
    }
    claims = parts("t0") if cooperative else ()
    assert all(subscription.owned == claims for subscription in said.values())


def test_an_eager_member_says_the_same_in_every_generation() -> None:
    """docs/use/groups.md: one that joins a stable group again changes nothing. A generation without claims
    would be news to the coordinator, and cost a rebalance."""
    one = One(cooperative=False, assignors=DEFAULTS["eager"])
    first = one.request(one.begin()).protocols
    one.join(one.effects)
    one.sync(Assignment(EAGER_VERSION, parts("t0")))
    one.feed(one.core.enforced("wanted", NOW))
    again = one.request(one.feed(one.core.released(one.number, NOW))).protocols
    assert again == first


def test_the_default_assignors_meet_kafkas_clients() -> None:
    """An eager member meets every client; a cooperative one must not meet a leader that takes it for an
    eager one. `sticky` stays first: strandline's members use it among themselves, in any mixture."""
    java, librdkafka, aiokafka = ("range", COOPERATIVE_STICKY), ("range", "roundrobin"), ("roundrobin",)
    for theirs in (java, librdkafka, aiokafka, (COOPERATIVE_STICKY,), ("range",), ("sticky",)):
        assert set(theirs) & set(DEFAULTS["eager"])
    assert set(DEFAULTS["cooperative"]) == {"sticky", COOPERATIVE_STICKY}
    assert {names[0] for names in DEFAULTS.values()} == {"sticky"}


def test_the_generation_is_user_data_too() -> None:
    """A Java client before 3.2 takes it from there."""
    one = released_group(owned="t0")
    said = Subscription.decode(one.request(one.core.enforced("wanted", NOW)).protocols[0].metadata)
    assert (said.owned_generation, said.user_data) == (1, generation_data(1))


# --- as the leader ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
def test_a_kafka_client_is_an_eager_member_under_every_other_name(version: int, assignor: str) -> None:
    """It starved beside an eager member of strandline: taken for a cooperative one, it kept what it owned,
    and that was nothing."""
    members = {"kafka": read(version), "mine": ParsedMember(Subscription(EAGER_VERSION, ("t",)))}
    made = plan(members, {"t": 4}, BUILT_IN[assignor])
    assert made.report.consensus is Consensus.EAGER
    assert {name: len(names) for name, names in assigned(made).items()} == {"kafka": 2, "mine": 2}
    assert {assignment.version for assignment in made.assignments.values()} == {EAGER_VERSION}


def test_what_moves_between_two_sides_waits_for_its_owner() -> None:
    """KIP-429: the new owner gets it in the generation after its revocation, from any leader."""
    mine = Subscription(RELEASED_VERSION, ("t",), parts("t0 t1"), 5)
    members = {"a": ParsedMember(mine), "b": read(3, "t2 t3", 5), "c": read(3)}
    made = plan(members, {"t": 4}, BUILT_IN[COOPERATIVE_STICKY])
    given = assigned(made)
    assert sum(map(len, given.values())) == 3
    assert not given["c"]
    assert {assignment.version for assignment in made.assignments.values()} == {EAGER_VERSION}
    assert made.report.consensus is Consensus.COOPERATIVE and made.report.rejoin


def test_of_two_claims_the_newer_one_counts() -> None:
    """CORRECTNESS G2, across the two sides; a claim without a generation is older than any."""
    members = {
        "java": read(3, "t0 t1", 5),
        "mine": ParsedMember(Subscription(RELEASED_VERSION, ("t",), parts("t1"), 4)),
        "python": read(1, "t0"),
    }
    made = plan(members, {"t": 2}, Fixed({"java": "t0 t1"}))
    assert assigned(made) == {"java": parts("t0 t1"), "mine": (), "python": ()}
    assert made.report.revoked == {"mine": parts("t1"), "python": parts("t0")}


def test_two_claims_of_one_generation_are_none() -> None:
    """CORRECTNESS G2: both members revoke it before a third one gets it."""
    members = {"a": read(3, "t0", 5), "b": read(3, "t0", 5), "c": read(3)}
    made = plan(members, {"t": 1}, Fixed({"c": "t0"}))
    assert assigned(made) == {"a": (), "b": (), "c": ()}
    assert made.report.rejoin


class Fixed:
    """Assigns what a test says, under the name of the released protocol."""

    name = COOPERATIVE_STICKY

    def __init__(self, answer: Mapping[str, str]) -> None:
        self._answer = answer

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        return {name: list(parts(self._answer.get(name, ""))) for name in members}


# --- as a member --------------------------------------------------------------------------------


def test_what_is_owned_and_not_assigned_is_released_before_the_next_join() -> None:
    """KIP-429 as released. The member claims the rest, with the generation that assigned it."""
    one = released_group(owned="t0 t1")
    one.join_again()
    effects = one.feed(one.core.synced(one.number, kafka_assignment(1, parts("t0 t2")), NOW))
    (assign,) = [effect for effect in effects if isinstance(effect, Assign)]
    (revoke,) = [effect for effect in effects if isinstance(effect, Revoke)]
    assert (assign.added, revoke.partitions) == (parts("t2"), parts("t1"))
    assert one.core.state is State.RELEASING
    effects = one.feed(one.core.released(one.number, NOW))
    said = Subscription.decode(one.request(effects).protocols[0].metadata)
    assert (said.owned, said.owned_generation) == (parts("t0 t2"), 2)


def test_a_member_that_loses_nothing_does_not_join_again() -> None:
    """KIP-429 as released: only a member with something to revoke begins the next generation."""
    one = released_group(owned="t0")
    one.join_again()
    one.feed(one.core.synced(one.number, kafka_assignment(0, parts("t0 t1")), NOW))
    assert one.core.state is State.STABLE
    assert one.core.owned == set(parts("t0 t1"))


def test_an_empty_assignment_takes_everything() -> None:
    """A leader that leaves a member out sends it no bytes."""
    one = released_group(owned="t0 t1")
    one.join_again()
    effects = one.feed(one.core.synced(one.number, b"", NOW))
    assert [effect.partitions for effect in effects if isinstance(effect, Revoke)] == [parts("t0 t1")]


def test_a_cooperative_member_does_not_follow_a_leader_that_takes_it_for_an_eager_one() -> None:
    """Others may already read what the assignment lacks: that two members do so would go unnoticed."""
    one = One(assignors=["range"]).stable("t0 t1")
    one.join_again()
    effects = one.feed(one.core.synced(one.number, kafka_assignment(3, parts("t0")), NOW))
    (fatal,) = [effect for effect in effects if isinstance(effect, Fatal)]
    assert "takes all members for eager ones" in fatal.error.message
    assert 'rebalance_protocol="cooperative"' in fatal.error.message


# --- static members -----------------------------------------------------------------------------


def test_a_static_member_that_ends_before_it_has_joined_again_does_so_when_it_returns() -> None:
    """CORRECTNESS G13: it revoked t1 and did not live to join without it. Its assignment names t0 only, and
    no other member would begin the generation that gives t1 to its new owner."""
    one = One(assignors=[COOPERATIVE_STICKY], instance="one")
    one.begin()
    mine = Subscription(RELEASED_VERSION, ("t",), parts("t0 t1"), 5).encode()
    members = (GroupMember("a", mine, "one"), GroupMember("b", kafka_subscription(3, ("t",), (), -1)))
    one.feed(one.core.joined(one.number, Joined("a", 6, COOPERATIVE_STICKY, "a", members), NOW))
    (sync,) = one.feed(one.core.metadata(one.number, {"t": 2}, NOW))[-1:]
    assert isinstance(sync, SendSync)
    written = sync.request.assignments["a"]
    assert len(Assignment.decode(written).assigned) == 1

    back = One(assignors=[COOPERATIVE_STICKY], instance="one")
    back.join(back.begin(), generation=6)
    effects = back.feed(back.core.synced(back.number, written, NOW))
    assert back.sends(effects)


@pytest.mark.parametrize("user_data", [mark(note(["t"])), generation_data(4), bytes(8), b""])
def test_a_static_member_that_returns_takes_other_data_for_no_note(user_data: bytes) -> None:
    """librdkafka's leader sends back the user data of the member before, of four bytes or of eight."""
    one = One(assignors=[COOPERATIVE_STICKY], instance="one")
    one.join(one.begin(), generation=6)
    assignment = Assignment(EAGER_VERSION, parts("t0"), user_data=user_data)
    assert not one.sends(one.sync(assignment))
    assert one.core.state is State.STABLE


def test_a_static_member_that_returns_for_other_topics_joins_again() -> None:
    """CORRECTNESS G13: the note of a strandline leader counts."""
    one = One(assignors=[COOPERATIVE_STICKY], instance="one")
    one.join(one.begin(), generation=6)
    assert one.sends(one.sync(Assignment(EAGER_VERSION, parts("t0"), user_data=mark(note(["t", "u"])))))
