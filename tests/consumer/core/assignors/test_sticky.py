"""The sticky assignor: even, and nothing moves without need (KIP-54, KIP-429)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.consumer.core.assignors.assignor import MemberSubscription
from strandline.consumer.core.assignors.sticky import StickyAssignor
from strandline.ids import TopicPartition
from tests.consumer.core.assignors.groups import (
    GONE,
    Answer,
    Group,
    crooked_group,
    groups,
    kept,
    owners,
    owning_groups,
)
from tests.support.costs import lines_of

QUICK = settings(deadline=None)  # a machine under load is no failure


def assign(group: Group) -> Answer:
    return StickyAssignor().assign(group.members, group.partitions)


def loads(answer: Answer) -> list[int]:
    return sorted(map(len, answer.values()))


def unevenness(loads: tuple[int, ...]) -> int:
    """The less, the more even."""
    return sum(load * load for load in loads)


def best(group: Group) -> tuple[int, int]:
    """Over all possible assignments: the least unevenness, and the most kept partitions with it."""
    members = list(group.members)
    found = {(0,) * len(members): 0}
    """loads so far → the most that is kept with them"""
    for name, subscribers in group.wanted.items():
        following: dict[tuple[int, ...], int] = {}
        for before, keeps in found.items():
            for place, member in enumerate(members):
                if member in subscribers:
                    after = (*before[:place], before[place] + 1, *before[place + 1 :])
                    stays = keeps + (name in group.members[member].owned)
                    following[after] = max(stays, following.get(after, 0))
        found = following
    least = min(map(unevenness, found))
    return least, max(keeps for after, keeps in found.items() if unevenness(after) == least)


def alike(members: int, *, topics: int = 3, partitions: int = 5) -> Group:
    """Members that subscribe to the same and own nothing."""
    names = tuple(f"topic-{number}" for number in range(topics))
    return Group(
        {f"member-{number:03}": MemberSubscription(names) for number in range(members)},
        dict.fromkeys(names, partitions),
    )


# --- even -------------------------------------------------------------------------------------------


@QUICK
@given(groups(members_max=9, alike=True))
def test_with_equal_subscriptions_members_differ_by_one_at_most(group: Group) -> None:
    """With any claims."""
    answer = assign(group)
    assert max(loads(answer)) - min(loads(answer)) <= 1


@QUICK
@given(groups(members_max=4, partitions_max=3))
def test_with_different_subscriptions_no_assignment_is_more_even(group: Group) -> None:
    """Compared with all possible assignments, with any claims."""
    answer = assign(group)
    assert unevenness(tuple(loads(answer))) == best(group)[0]


@QUICK
@given(groups(members_max=12, partitions_max=30))
def test_no_partition_could_move_to_a_subscriber_that_has_two_less(group: Group) -> None:
    """In groups that are too large to try all assignments."""
    answer = assign(group)
    for name, member in owners(answer).items():
        for other in group.wanted[name]:
            assert len(answer[member]) - len(answer[other]) < 2


def test_a_chain_of_members_makes_room_for_one_that_cannot_be_given_to_directly() -> None:
    """a hands a partition to b, which hands another to c: a and c have no topic in common."""
    partitions = {"ab": 4, "bc": 2}
    claims = [TopicPartition("ab", number) for number in range(3)]
    group = Group(
        {
            "a": MemberSubscription(("ab",), tuple(claims), 1),
            "b": MemberSubscription(("ab", "bc"), (TopicPartition("ab", 3), TopicPartition("bc", 0)), 1),
            "c": MemberSubscription(("bc",), (TopicPartition("bc", 1),), 1),
        },
        partitions,
    )
    answer = assign(group)
    assert loads(answer) == [2, 2, 2]
    assert kept(group, answer) == 4


# --- nothing moves without need ---------------------------------------------------------------------


@QUICK
@given(owning_groups(alike=True))
def test_with_equal_subscriptions_as_much_is_kept_as_an_even_assignment_allows(group: Group) -> None:
    """Among all even assignments that there are."""
    assert kept(group, assign(group)) == best(group)[1]


@pytest.mark.parametrize("seed", range(10))
def test_no_partition_moves_that_a_neutral_exchange_would_bring_back(seed: int) -> None:
    """With different subscriptions: a member that got another's partition could neither give it back, nor
    exchange it for one that the other got. Loads would be as even as before."""
    draw = Random(seed)
    for _ in range(100):
        group = crooked_group(draw)
        answer = assign(group)
        assert unevenness(tuple(loads(answer))) == best(group)[0]
        now = owners(answer)
        for loser, said in group.members.items():
            for name in set(said.owned) - set(answer[loser]):
                holder = now[name]
                assert len(answer[holder]) != len(answer[loser]) + 1
                for new in set(answer[loser]) - set(said.owned):
                    assert holder not in group.wanted[new]


def test_free_partitions_are_spread_before_any_is_taken() -> None:
    """KIP-429: the second generation of a rebalance. m0 has three of seven and may keep them, if the others
    share the rest by twos; that it alone has three is no reason to ask for one more back."""
    partitions = {"a": 2, "b": 1, "c": 1, "d": 3}
    claims = (TopicPartition("a", 1), TopicPartition("d", 0), TopicPartition("d", 1))
    group = Group(
        {
            "m0": MemberSubscription(("a", "c", "d"), claims, 6),
            "m1": MemberSubscription(("a", "b", "c", "d")),
            "m2": MemberSubscription(("a", "b")),
        },
        partitions,
    )
    answer = assign(group)
    assert answer["m0"] == list(claims)
    assert loads(answer) == [2, 2, 3]


@QUICK
@given(groups(members_max=12, partitions_max=12))
def test_a_second_assignment_moves_nothing(group: Group) -> None:
    """KIP-429: an unneeded rebalance costs no member a partition."""
    answer = assign(group)
    assert assign(group.owning(answer, generation=3)) == answer


@pytest.mark.parametrize("seed", range(10))
def test_revoked_partitions_are_given_in_the_next_generation_and_then_nothing_moves(seed: int) -> None:
    """KIP-429: all join again, without their revoked partitions; that generation must be the last. So it
    takes no partition from any member, though it need not give a revoked partition to the member that the
    first one meant."""
    draw = Random(seed)
    for _ in range(200):
        group = crooked_group(draw)
        answer = assign(group)
        still = {
            member: [name for name in said.owned if name in answer[member]]
            for member, said in group.members.items()
        }
        again = assign(group.owning(still, generation=6))
        for member, names in still.items():
            assert set(names) <= set(again[member])


@QUICK
@given(st.integers(1, 12), st.integers(1, 12))
def test_a_new_member_gets_its_share_and_nothing_else_moves(members: int, partitions: int) -> None:
    """Scale up: only to the new one, and no more than makes it even."""
    group = alike(members, partitions=partitions)
    before = assign(group)
    new = MemberSubscription(tuple(group.partitions))
    after = assign(Group({"a-new-one": new, **group.owning(before, generation=1).members}, group.partitions))
    for member, names in before.items():
        assert set(after[member]) <= set(names)
    assert len(after["a-new-one"]) == 3 * partitions // (members + 1)


@QUICK
@given(st.integers(2, 12), st.integers(1, 12), st.data())
def test_only_partitions_of_the_leaving_member_move(
    members: int, partitions: int, data: st.DataObject
) -> None:
    """Scale down: the others keep all they have."""
    group = alike(members, partitions=partitions)
    before = assign(group)
    gone = data.draw(st.sampled_from(sorted(group.members)))
    after = assign(group.owning(before, generation=1).without(gone))
    for member, names in after.items():
        assert set(names) >= set(before[member])


@QUICK
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 12), st.integers(0, 12))
def test_added_partitions_and_topics_take_nothing_from_a_member(
    members: int, partitions: int, more: int, new: int
) -> None:
    """With equal subscriptions there is always room for them elsewhere."""
    group = alike(members, partitions=partitions)
    before = assign(group)
    grown = {"topic-0": partitions + more, "topic-1": partitions, "topic-2": partitions, "topic-3": new}
    wider = {
        member: replace(said, topics=tuple(grown))
        for member, said in group.owning(before, generation=1).members.items()
    }
    after = assign(Group(wider, grown))
    for member, names in before.items():
        assert set(names) <= set(after[member])


# --- claims -----------------------------------------------------------------------------------------


def weighed(group: Group) -> Group:
    """Only the claims that count, by a rule that is said more simply than it is found."""

    def counts(member: str, name: TopicPartition) -> bool:
        return member in group.wanted.get(name, ()) and all(
            name not in other.owned or other.owned_generation < group.members[member].owned_generation
            for rival, other in group.members.items()
            if rival != member
        )

    members = {
        member: replace(said, owned=tuple(name for name in said.owned if counts(member, name)))
        for member, said in group.members.items()
    }
    return Group(members, group.partitions)


@settings(QUICK, max_examples=300)
@given(groups(members_max=4, partitions_max=2))
def test_invalid_claims_are_ignored(group: Group) -> None:
    """CORRECTNESS G2: a claim of an older generation than another's, two claims of the same generation, a
    claim to a topic without a subscription, and one to a partition that does not exist."""
    assert assign(group) == assign(weighed(group))


P = TopicPartition("t", 0)


@pytest.mark.parametrize(("first", "second", "owner"), [(5, 4, "m1"), (4, 5, "m2"), (5, 5, "m0")])
def test_of_two_claims_that_of_the_higher_generation_counts_and_of_equal_ones_neither(
    first: int, second: int, owner: str
) -> None:
    """CORRECTNESS G2: a member that was away claims partitions that others got since. If the claims are
    equal, the partition goes to the first member, as if it had no owner."""
    members = {
        "m0": MemberSubscription(("t",)),
        "m1": MemberSubscription(("t",), (P,), first),
        "m2": MemberSubscription(("t",), (P,), second),
    }
    assert owners(StickyAssignor().assign(members, {"t": 1})) == {P: owner}


def test_a_topic_that_is_gone_or_smaller_or_no_longer_subscribed_to_is_not_kept() -> None:
    """A claim to it neither counts as load nor gets the partition."""
    stale = (TopicPartition(GONE, 0), TopicPartition("t", 7), TopicPartition("other", 0))
    members = {
        "m0": MemberSubscription(("t", GONE), stale, 3),
        "m1": MemberSubscription(("t", "other"), (TopicPartition("t", 0),), 3),
    }
    assert StickyAssignor().assign(members, {"t": 3, "other": 1}) == {
        "m0": [("t", 1), ("t", 2)],
        "m1": [("other", 0), ("t", 0)],
    }


# --- many -------------------------------------------------------------------------------------------

MEMBERS, PARTITIONS = 450, 3_000
LINES_MAX = 150
"""Lines of code executed for each partition and each subscribed topic of each member: at most 101 are, at a
tenth of these sizes too. A quadratic algorithm executes thousands."""


@pytest.mark.parametrize("topics", [1, 30, 3_000])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.02])
def test_the_work_grows_with_the_partitions_and_the_subscriptions_alone(topics: int, share: float) -> None:
    """From nothing, again after a member left, and from one member that owns all it may; even each time."""
    draw = Random(f"{topics} {share}")
    partitions = {f"topic-{number:04}": PARTITIONS // topics for number in range(topics)}
    names = list(partitions)
    members = {
        f"member-{number:03}": MemberSubscription(tuple(draw.sample(names, max(1, int(share * topics)))))
        for number in range(MEMBERS)
    }
    fresh = Group(members, partitions)
    everything = [
        TopicPartition(topic, number)
        for topic in members["member-000"].topics
        for number in range(partitions[topic])
    ]
    first = assign(fresh)
    left = fresh.owning(first, generation=1).without("member-007")
    second = assign(left)
    all_of_one = fresh.owning({"member-000": everything}, generation=1)
    third = assign(all_of_one)
    lines_max = LINES_MAX * (PARTITIONS + sum(len(member.topics) for member in members.values()))
    for group in (fresh, left, all_of_one):
        assert lines_of(partial(assign, group)) <= lines_max
    assert kept(left, second) >= len(owners(first)) - 3 * len(first["member-007"])
    if share >= 0.5:
        for answer in (first, second, third):
            assert max(loads(answer)) - min(loads(answer)) <= 1
