"""The leader's plan, sentence by sentence (KIP-429, docs/design.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strandline.consumer.core.assignors.assignor import Assignor, AssignorFailed, MemberSubscription
from strandline.consumer.core.assignors.registry import BUILT_IN
from strandline.consumer.core.leader_plan import Consensus, ParsedMember, Plan, plan
from strandline.ids import TopicPartition
from strandline.vocabulary.parsing.consumer_protocol import (
    COOPERATIVE_STICKY,
    DRAFT_VERSION,
    EAGER_VERSION,
    RELEASED_VERSION,
    AssignmentError,
    Subscription,
)

STICKY = BUILT_IN["sticky"]
RANGE = BUILT_IN["range"]


def parts(text: str) -> tuple[TopicPartition, ...]:
    """`t0 t1 u0` → partitions."""
    return tuple(TopicPartition(name[:-1], int(name[-1])) for name in text.split())


def new(owned: str = "", topics: str = "t", generation: int = 5) -> ParsedMember:
    """A cooperative member."""
    return ParsedMember(Subscription(1, tuple(topics), parts(owned), generation if owned else -1))


def old(topics: str = "t") -> ParsedMember:
    """An eager member: it has given up everything before it joined."""
    return ParsedMember(Subscription(0, tuple(topics)))


def assigned(made: Plan) -> dict[str, str]:
    return {name: " ".join(f"{t}{n}" for t, n in a.assigned) for name, a in made.assignments.items()}


def revoked(made: Plan) -> dict[str, str]:
    return {
        name: " ".join(f"{t}{n}" for t, n in a.revoked) for name, a in made.assignments.items() if a.revoked
    }


def rejoins(made: Plan) -> set[str]:
    return {n for n, a in made.assignments.items() if a.error is AssignmentError.NEEDS_REJOIN}


@dataclass
class Fixed:
    """Assigns what a test says, and notes what it was shown."""

    answer: dict[str, str]
    name: str = "fixed"
    seen: Mapping[str, MemberSubscription] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        self.seen, self.partitions = members, partitions
        return {name: list(parts(text)) for name, text in self.answer.items()}


# --- all members are cooperative ----------------------------------------------------------------


def test_a_partition_without_an_owner_is_given_at_once() -> None:
    """ "For not-assigned-partitions, it is safe to move them to the new member immediately"."""
    made = plan({"a": new("t0"), "b": new()}, {"t": 2}, Fixed({"a": "t0", "b": "t1"}))
    assert assigned(made) == {"a": "t0", "b": "t1"}
    assert not revoked(made)
    assert not rejoins(made)
    assert made.report.consensus is Consensus.COOPERATIVE


def test_a_moving_partition_is_revoked_and_unassigned_and_all_join_again() -> None:
    """ "Encode it to the old owner in revoked-partitions but not to the assigned-partitions of the new
    owner, set the error code to NEEDS_REJOIN for all the members"."""
    members = {"a": new("t0 t1"), "b": new(), "c": new("t2")}
    made = plan(members, {"t": 3}, Fixed({"a": "t0", "b": "t1", "c": "t2"}))
    assert assigned(made) == {"a": "t0", "b": "", "c": "t2"}
    assert revoked(made) == {"a": "t1"}
    assert rejoins(made) == {"a", "b", "c"}
    assert made.report.revoked == {"a": parts("t1")}
    assert made.report.rejoin


def test_a_moved_partition_is_given_when_its_old_owner_has_joined_without_it() -> None:
    """ "A partition is revoked in previous rebalance by the new versioned member and hence not in
    any assigned
    partitions": the second generation ends it."""
    members = {"a": new("t0", generation=6), "b": new(generation=6), "c": new("t2", generation=6)}
    made = plan(members, {"t": 3}, Fixed({"a": "t0", "b": "t1", "c": "t2"}))
    assert assigned(made) == {"a": "t0", "b": "t1", "c": "t2"}
    assert not rejoins(made)


@pytest.mark.parametrize(("counts", "why"), [({"t": 1}, "topic"), ({"t": 1, "u": 1}, "partition")])
def test_a_claimed_partition_that_is_unknown_is_given_back(counts: dict[str, int], why: str) -> None:
    """The leader encodes such partitions directly, for the members that claimed them: of a topic that is
    deleted, or that the leader does not know yet."""
    members = {"a": new("t0 u1", topics="tu"), "b": new(topics="tu")}
    made = plan(members, counts, STICKY)
    assert "u1" in assigned(made)["a"].split()
    assert not revoked(made)
    assert not rejoins(made)


def test_the_assignor_sees_no_unknown_partition() -> None:
    """Total-partitions are inferred from the cluster's metadata: an unknown one is not to be balanced."""
    assignor = Fixed({"a": "t0"})
    plan({"a": new("t0 u1", topics="tu")}, {"t": 1}, assignor)
    assert assignor.seen["a"].owned == parts("t0")
    assert assignor.partitions == {"t": 1}


def test_the_claim_of_the_younger_generation_stands() -> None:
    """CORRECTNESS G2: and the other one hears that it has to let go, or it would read on."""
    made = plan({"a": new("t0", generation=4), "b": new("t0", generation=5)}, {"t": 1}, STICKY)
    assert assigned(made) == {"a": "", "b": "t0"}
    assert revoked(made) == {"a": "t0"}
    assert not rejoins(made), "no member waits for it"


def test_two_equal_claims_cancel_each_other() -> None:
    """CORRECTNESS G2: both members release the partition before another one gets it."""
    made = plan({"a": new("t0"), "b": new("t0")}, {"t": 1}, STICKY)
    assert assigned(made) == {"a": "", "b": ""}
    assert revoked(made) == {"a": "t0", "b": "t0"}
    assert rejoins(made) == {"a", "b"}


def test_the_younger_claim_may_lose_the_partition_to_balance() -> None:
    """Both claimants let go of a partition that a third one is to have."""
    members = {"a": new("t0", generation=4), "b": new("t0 t1", generation=5), "c": new()}
    made = plan(members, {"t": 2}, Fixed({"c": "t0", "b": "t1"}))
    assert assigned(made) == {"a": "", "b": "t1", "c": ""}
    assert revoked(made) == {"a": "t0", "b": "t0"}
    assert rejoins(made) == {"a", "b", "c"}


def test_two_claims_on_an_unknown_partition_are_weighed_too() -> None:
    """CORRECTNESS G2: it is given back to one of them only."""
    members = {"a": new("u0", topics="u", generation=4), "b": new("u0", topics="u", generation=5)}
    made = plan(members, {}, STICKY)
    assert assigned(made) == {"a": "", "b": "u0"}
    assert revoked(made) == {"a": "u0"}


def test_a_topic_that_is_no_longer_subscribed_to_is_revoked() -> None:
    """Trigger (a): it kept everything when it joined, so the leader has to take it back; others wait."""
    made = plan({"a": new("t0 u0", topics="t"), "b": new(topics="u")}, {"t": 1, "u": 1}, STICKY)
    assert assigned(made) == {"a": "t0", "b": ""}
    assert revoked(made) == {"a": "u0"}
    assert rejoins(made) == {"a", "b"}


@pytest.mark.parametrize("counts", [{"t": 1}, {"t": 1, "u": 1}])
def test_no_member_joins_again_for_a_topic_without_subscribers(counts: dict[str, int]) -> None:
    """A second generation would change nothing."""
    made = plan({"a": new("t0 u0", topics="t"), "b": new()}, counts, STICKY)
    assert assigned(made) == {"a": "t0", "b": ""}
    assert revoked(made) == {"a": "u0"}
    assert not rejoins(made)


# --- all members are eager ----------------------------------------------------------------------


def test_eager_members_get_what_the_assignor_says() -> None:
    """ "If all members are on V0, then follow the old algorithm"."""
    made = plan({"a": old(), "b": old()}, {"t": 3}, RANGE)
    assert assigned(made) == {"a": "t0 t1", "b": "t2"}
    assert {a.version for a in made.assignments.values()} == {0}
    assert made.report.consensus is Consensus.EAGER


# --- mixed --------------------------------------------------------------------------------------


def test_cooperative_members_of_a_mixed_group_get_back_what_they_own() -> None:
    """ "Just giving back their existing assigned-partitions", revoked empty, though the assignor would
    have some of it elsewhere; it hears of all members and of all that they own."""
    members = {"a": new("t0 t3 t4"), "b": new("t1"), "c": old(), "d": old()}
    assignor = Fixed({"a": "t0", "b": "t1 t3", "c": "t2 t4", "d": "t5"})
    made = plan(members, {"t": 6}, assignor)
    assert assigned(made) == {"a": "t0 t3 t4", "b": "t1", "c": "t2", "d": "t5"}
    assert not revoked(made)
    assert not rejoins(made)
    assert {name: member.owned for name, member in assignor.seen.items()} == {
        "a": parts("t0 t3 t4"),
        "b": parts("t1"),
        "c": (),
        "d": (),
    }


def test_free_partitions_of_a_mixed_group_go_to_cooperative_members_too() -> None:
    """ "It is safe to move those partitions to other members immediately based on the assignor's output":
    eager members have revoked theirs, and new partitions had no owner."""
    made = plan({"a": new("t0"), "b": new(), "c": old(), "d": old()}, {"t": 6}, STICKY)
    assert assigned(made) == {"a": "t0 t1", "b": "t2 t3", "c": "t4", "d": "t5"}
    assert not revoked(made)
    assert not rejoins(made)


def test_a_cooperative_member_that_kept_its_share_gets_no_more_in_a_mixed_group() -> None:
    """The assignor would have it give two for two others; it cannot give any, and it would gather more with
    each generation. Others get those, and the eager one of two that have the same room."""
    members = {"a": new("t0 t1"), "b": new(), "c": old()}
    made = plan(members, {"t": 6}, Fixed({"a": "t4 t5", "b": "t0 t2", "c": "t1 t3"}))
    assert assigned(made) == {"a": "t0 t1", "b": "t2 t5", "c": "t3 t4"}


def test_a_partition_whose_only_subscriber_has_its_share_is_given_to_it_nevertheless() -> None:
    """No other member could take it, and it would be unread as long as the group is mixed."""
    members = {"a": new("t0 t1", topics="tu"), "b": old()}
    made = plan(members, {"t": 3, "u": 1}, Fixed({"a": "t2 u0", "b": "t0 t1"}))
    assert assigned(made) == {"a": "t0 t1 u0", "b": "t2"}


def test_partitions_that_the_assignor_leaves_out_stay_with_their_owners_in_a_mixed_group() -> None:
    """The assignor's word counts for what is free; what is owned does not move."""
    made = plan({"a": new("t0"), "b": old()}, {"t": 3}, Fixed({"b": "t1"}))
    assert assigned(made) == {"a": "t0", "b": "t1"}
    assert not rejoins(made)


def test_each_member_of_a_mixed_group_is_answered_in_its_own_version() -> None:
    """ "For those members in V1, send assignment in V1"."""
    made = plan({"a": new(), "b": old()}, {"t": 1}, STICKY)
    assert {name: a.version for name, a in made.assignments.items()} == {"a": 1, "b": 0}


def test_a_mixed_group_names_its_members() -> None:
    """docs/design.md: a group that stays mixed says so, naming the members."""
    made = plan({"a": new(), "b": old(), "c": old()}, {"t": 1}, STICKY)
    assert made.report.consensus is Consensus.MIXED
    assert (made.report.eager, made.report.cooperative) == (("b", "c"), ("a",))
    assert str(made.report) == "the members do not agree on a protocol: eager b, c; cooperative a"


def test_members_of_a_mixed_group_get_only_what_they_subscribe_to() -> None:
    members = {"a": new("u0", topics="tu"), "b": new(topics="u"), "c": old(topics="t")}
    made = plan(members, {"t": 2, "u": 3}, STICKY)
    assert assigned(made) == {"a": "t0 u0", "b": "u1 u2", "c": "t1"}
    assert not rejoins(made)


def test_an_invalid_claim_is_revoked_in_a_mixed_group_too() -> None:
    """CORRECTNESS G2: no member gets it in this generation; all that can join again at once do."""
    made = plan({"a": new("t0"), "b": new("t0"), "c": old()}, {"t": 2}, Fixed({"a": "t0", "c": "t1"}))
    assert assigned(made) == {"a": "", "b": "", "c": "t1"}
    assert revoked(made) == {"a": "t0", "b": "t0"}
    assert rejoins(made) == {"a", "b"}


def test_unknown_partitions_are_given_back_in_a_mixed_group_too() -> None:
    """ "Giving back their existing assigned-partitions", even if the leader does not know them."""
    made = plan({"a": new("u7", topics="tu"), "b": old()}, {"t": 1, "u": 1}, STICKY)
    assert assigned(made) == {"a": "u0 u7", "b": "t0"}


# --- assignors that users wrote -----------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", [{"a": "t0", "b": "t0"}, {"a": "u0"}, {"a": "t5"}, {"stranger": "t0"}, {"b": "v0"}]
)
def test_an_assignor_that_breaks_its_promise_is_named(answer: dict[str, str]) -> None:
    """A partition twice, of a topic that is not subscribed, that does not exist, or for a stranger."""
    members = {"a": new(topics="t"), "b": new(topics="tv")}
    with pytest.raises(AssignorFailed, match="assignor 'fixed' gave"):
        plan(members, {"t": 2, "u": 1}, Fixed(answer))


def test_an_assignor_that_raises_is_named() -> None:
    class Broken:
        name = "broken"

        def assign(
            self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
        ) -> dict[str, list[TopicPartition]]:
            raise ZeroDivisionError("oops")

    with pytest.raises(AssignorFailed, match=r"'broken'.*ZeroDivisionError\('oops'\)"):
        plan({"a": new()}, {"t": 1}, Broken())


def test_a_partition_that_an_assignor_leaves_out_is_taken_from_its_owner() -> None:
    """The assignor decides; there is no new owner to wait for."""
    made = plan({"a": new("t0 t1")}, {"t": 2}, Fixed({"a": "t0"}))
    assert assigned(made) == {"a": "t0"}
    assert revoked(made) == {"a": "t1"}
    assert not rejoins(made)


# --- random groups ------------------------------------------------------------------------------

TOPICS = "tuv"


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, ParsedMember], dict[str, int]]:
    """Up to five members of every form, whose claims conflict, are stale or on unknown topics."""
    names = st.tuples(st.sampled_from(TOPICS), st.integers(0, 4)).map(lambda name: TopicPartition(*name))
    subscriptions = st.lists(st.sampled_from(TOPICS), unique=True).map(tuple)
    members: dict[str, ParsedMember] = {}
    for name in "abcde"[: draw(st.integers(1, 5))]:
        topics = draw(subscriptions)
        version = draw(st.sampled_from([EAGER_VERSION, DRAFT_VERSION, RELEASED_VERSION]))
        if version == EAGER_VERSION:
            members[name] = ParsedMember(Subscription(version, topics))
        else:
            owned = tuple(draw(st.lists(names, unique=True, max_size=5)))
            generation = draw(st.integers(3, 5))
            members[name] = ParsedMember(Subscription(version, topics, owned, generation))
    counts = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 4)))
    return members, counts


@given(groups(), st.sampled_from([*BUILT_IN.values()]))
def test_no_plan_gives_away_what_another_member_may_own(
    drawn: tuple[dict[str, ParsedMember], dict[str, int]], assignor: Assignor
) -> None:
    """KIP-429: assigned ⊇ owned − revoked; nothing is given twice; nothing is given to one member that
    another one claims; in agreement with all subscriptions. And what is free is given. Only members that
    are cooperative under the assignor's name have claims; under `cooperative-sticky` all of them are, and
    an owner revokes what it is not assigned."""
    members, counts = drawn
    made = plan(members, counts, assignor)
    assert made.assignments.keys() == members.keys()
    claims = {name: claims_of(member, assignor) for name, member in members.items()}
    given_to: dict[TopicPartition, str] = {}
    revoking = set[str]()
    for name, assignment in made.assignments.items():
        said = members[name].subscription
        revoked = set(assignment.revoked)
        if assignor.name == COOPERATIVE_STICKY:
            assert (assignment.version, revoked) == (EAGER_VERSION, set())
            revoked = claims[name] - set(assignment.assigned)
        else:
            assert assignment.version == (DRAFT_VERSION if said.version == DRAFT_VERSION else EAGER_VERSION)
        revoking |= {name} if revoked else set()
        assert set(assignment.assigned) >= claims[name] - revoked
        assert revoked <= claims[name]
        assert not revoked & set(assignment.assigned)
        for partition in assignment.assigned:
            assert partition.topic in said.topics
            assert partition not in given_to
            given_to[partition] = name
            others = [m for n, m in members.items() if n != name and partition in claims[n]]
            if partition not in claims[name]:
                assert not others
            assert all(m.subscription.owned_generation < said.owned_generation for m in others)
    waiting = False
    for topic, count in counts.items():
        if not any(topic in member.subscription.topics for member in members.values()):
            continue
        for partition in (TopicPartition(topic, n) for n in range(count)):
            if partition not in given_to:
                assert any(partition in claimed for claimed in claims.values())
                waiting = True
    assert waiting == made.report.rejoin
    if assignor.name == COOPERATIVE_STICKY:
        assert revoking or not waiting, "a member that revokes something joins again"
    else:
        drafts = {name for name, member in members.items() if member.subscription.version == DRAFT_VERSION}
        assert rejoins(made) == (drafts if waiting else set())


def claims_of(member: ParsedMember, assignor: Assignor) -> set[TopicPartition]:
    """What the member may own in a group of this assignor."""
    cooperative = member.subscription.cooperative(assignor.name)
    return set(member.subscription.owned) if cooperative else set()


ONLY_ONE_SUBSCRIBES = (
    {
        "a": ParsedMember(Subscription(1, ("t", "u", "v"), (TopicPartition("u", 0),), 3)),
        "b": ParsedMember(Subscription(0, ("u",))),
    },
    {"t": 1, "u": 2, "v": 1},
)
"""`a` has to take t and v, and keeps what it owns of u: the rest of u is for `b`."""


@example(ONLY_ONE_SUBSCRIBES, BUILT_IN["roundrobin"])
@given(groups(), st.sampled_from([*BUILT_IN.values()]))
def test_a_mixed_group_gives_no_member_more_than_its_share_while_another_has_less(
    drawn: tuple[dict[str, ParsedMember], dict[str, int]], assignor: Assignor
) -> None:
    """This holds for free partitions. A member's share is the number that the assignor gives it; the others
    are subscribers of the topic."""
    members, counts = drawn
    seen = Noted(assignor)
    made = plan(members, counts, seen)
    if made.report.consensus is not Consensus.MIXED:
        return
    wanted = seen.answer
    room = {
        name: len(wanted[name]) - sum(p.partition < counts.get(p.topic, 0) for p in assignment.assigned)
        for name, assignment in made.assignments.items()
    }
    for name, assignment in made.assignments.items():
        for partition in set(assignment.assigned) - claims_of(members[name], assignor):
            others = {n for n, m in members.items() if partition.topic in m.subscription.topics} - {name}
            assert room[name] >= 0 or all(room[other] <= 0 for other in others)


@dataclass
class Noted:
    """An assignor, and what it said last."""

    assignor: Assignor
    answer: dict[str, list[TopicPartition]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.assignor.name

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        self.answer = self.assignor.assign(members, partitions)
        return self.answer
