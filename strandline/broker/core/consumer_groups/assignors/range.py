"""The assignor `range`: of each topic, every member has neighbouring partitions.

The order of members is the same for all topics. So of two topics with as many partitions, read by the same
members, each member has the same numbers, and can join their records. Members with the same subscriptions
stay in the order of their last ranges, and newcomers come last: then most keep the greater part of what they
have.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from strandline.broker.core.consumer_groups.assignors.subscribers import Subscriber
from strandline.broker.core.consumer_groups.topics import Topic
from strandline.ids import PartitionId, PartitionKey, TopicId


def ranges(
    members: Mapping[str, Subscriber], topics: Mapping[TopicId, Topic]
) -> dict[str, Set[PartitionKey]]:
    alike = len({each.topics for each in members.values()}) == 1

    def rank(member: str) -> tuple[float, str, str]:
        return _first(members[member]) if alike else 0, members[member].name, member

    order = sorted(members, key=rank)
    found: dict[str, set[PartitionKey]] = {member: set() for member in members}
    for topic_id, topic in sorted(topics.items()):
        readers = [member for member in order if topic_id in members[member].topics]
        if not readers:
            continue
        each, more = divmod(topic.partitions, len(readers))
        start = 0
        for place, member in enumerate(readers):
            end = start + each + (place < more)
            found[member].update(PartitionKey(topic_id, PartitionId(n)) for n in range(start, end))
            start = end
    return {member: frozenset(keys) for member, keys in found.items()}


def _first(member: Subscriber) -> float:
    """Where its last ranges begin; a newcomer's place is the last."""
    return min((key.partition for key in member.before), default=float("inf"))
