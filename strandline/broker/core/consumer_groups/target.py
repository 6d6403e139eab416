"""The target of a group: which member is to have which partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set
from typing import Final

from strandline.broker.core.consumer_groups.assignors.range import ranges
from strandline.broker.core.consumer_groups.assignors.subscribers import Subscriber
from strandline.broker.core.consumer_groups.assignors.uniform import uniform
from strandline.broker.core.consumer_groups.group import ConsumerGroup
from strandline.broker.core.consumer_groups.topics import Topic
from strandline.ids import PartitionKey, TopicId

Assign = Callable[[Mapping[str, Subscriber], Mapping[TopicId, Topic]], dict[str, Set[PartitionKey]]]

UNIFORM: Final = "uniform"
RANGE: Final = "range"
ASSIGNORS: Final[Mapping[str, Assign]] = {UNIFORM: uniform, RANGE: ranges}
"""By name; the first is that of groups whose members ask for none."""


def assignor_of(group: ConsumerGroup) -> str:
    """The assignor that most members ask for; of several, the first of the table."""
    votes = Counter(member.assignor for member in group.members.values() if member.assignor in ASSIGNORS)
    return max(ASSIGNORS, key=lambda name: votes[name])


def target_of(group: ConsumerGroup) -> dict[str, Set[PartitionKey]]:
    """The next target by member. Each has what it had as far as that is even."""
    topics = {topic.topic_id: topic for topic in group.known_topics().values()}
    subscribers = {
        member_id: Subscriber(
            member.instance or member_id, group.subscribed_ids(member), group.target_of(member_id)
        )
        for member_id, member in sorted(group.members.items())
    }
    return ASSIGNORS[assignor_of(group)](subscribers, topics)
