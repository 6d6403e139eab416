"""Groups to assign to: drawn ones, and what to ask of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from hypothesis import strategies as st

from strandline.consumer.core.assignors.assignor import MemberSubscription
from strandline.ids import TopicPartition

Answer = Mapping[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Group:
    """The input of an assignor."""

    members: Mapping[str, MemberSubscription]
    partitions: Mapping[str, int]

    @property
    def wanted(self) -> dict[TopicPartition, set[str]]:
        """Each existing partition with subscribers, and these subscribers."""
        return {
            TopicPartition(topic, number): subscribers
            for topic, count in self.partitions.items()
            if (subscribers := {member for member, said in self.members.items() if topic in said.topics})
            for number in range(count)
        }

    def owning(self, answer: Answer, generation: int) -> Group:
        """The same members, once they got the answer."""
        members = {
            member: replace(said, owned=tuple(answer.get(member, ())), owned_generation=generation)
            for member, said in self.members.items()
        }
        return Group(members, self.partitions)

    def without(self, member: str) -> Group:
        return Group({name: said for name, said in self.members.items() if name != member}, self.partitions)


def owners(answer: Answer) -> dict[TopicPartition, str]:
    """The owner of each partition. Asserts that no partition has two."""
    found: dict[TopicPartition, str] = {}
    for member, names in answer.items():
        for name in names:
            assert name not in found, f"{name} has two owners"
            found[name] = member
    return found


def kept(group: Group, answer: Answer) -> int:
    """How many partitions stay with a member that says it owns them."""
    return sum(len(set(said.owned) & set(answer[member])) for member, said in group.members.items())


TOPICS = ("a", "b", "c", "d")
GONE = "gone"
"""A topic that members may subscribe to or own, but that does not exist."""


@st.composite
def groups(draw: st.DrawFn, *, members_max: int = 6, partitions_max: int = 4, alike: bool = False) -> Group:
    """Members with any subscriptions (or equal ones), claims that may be stale or contradict each other."""
    topics = draw(st.lists(st.sampled_from(TOPICS), unique=True, min_size=1))
    partitions = {topic: draw(st.integers(0, partitions_max)) for topic in topics}
    subscriptions = st.lists(st.sampled_from((*TOPICS, GONE)), unique=True).map(tuple)
    claims = st.lists(
        st.builds(TopicPartition, st.sampled_from((*TOPICS, GONE)), st.integers(0, partitions_max)),
        unique=True,
    )
    common = draw(subscriptions)
    members = {}
    for number in draw(st.permutations(range(draw(st.integers(1, members_max))))):
        members[f"member-{number}"] = MemberSubscription(
            topics=common if alike else draw(subscriptions),
            owned=tuple(draw(claims)),
            owned_generation=draw(st.integers(-1, 2)),
            instance=draw(st.sampled_from([None, f"instance-{9 - number}"])),
        )
    return Group(members, partitions)


@st.composite
def owning_groups(
    draw: st.DrawFn, *, members_max: int = 4, partitions_max: int = 3, alike: bool = False
) -> Group:
    """Groups with true claims: each partition is claimed by at most one subscriber."""
    group = draw(groups(members_max=members_max, partitions_max=partitions_max, alike=alike))
    owned: dict[str, list[TopicPartition]] = {}
    for name, subscribers in sorted(group.wanted.items()):
        if owner := draw(st.sampled_from([None, *sorted(subscribers)])):
            owned.setdefault(owner, []).append(name)
    return group.owning(owned, generation=5)


def crooked_group(draw: Random) -> Group:
    """Different subscriptions, and claims that are true and far from even: most are of the first members.

    In six of a hundred an assignor that takes the first way to be even moves something without need; of
    those that `owning_groups` draws in hardly any.
    """
    topics = TOPICS[: draw.randint(2, 4)]
    partitions = {topic: draw.randint(1, 3) for topic in topics}
    members = {
        f"member-{number}": MemberSubscription(tuple(draw.sample(topics, draw.randint(1, len(topics)))))
        for number in range(draw.randint(2, 5))
    }
    group = Group(members, partitions)
    owned: dict[str, list[TopicPartition]] = {}
    for name, subscribers in group.wanted.items():
        if draw.random() < 0.8:
            ordered = sorted(subscribers)
            owner = ordered[0] if draw.random() < 0.5 else draw.choice(ordered)
            owned.setdefault(owner, []).append(name)
    return group.owning(owned, generation=5)
