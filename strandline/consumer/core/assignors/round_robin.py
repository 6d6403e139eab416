"""Assigns all partitions of all topics to the members in turn.

With equal subscriptions the loads differ by at most one partition. With different ones they may
differ by a lot: a member that does not subscribe to a topic is skipped, and not compensated later.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Final

from strandline.consumer.core.assignors.assignor import MemberSubscription, in_order, subscribers_by_topic
from strandline.ids import TopicPartition


class RoundRobinAssignor:
    """Kafka's "roundrobin"; its assignments are identical."""

    name: Final = "roundrobin"

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        """See `Assignor.assign`."""
        assigned: dict[str, list[TopicPartition]] = {member: [] for member in members}
        turns = cycle(in_order(members))
        for topic, subscribers in subscribers_by_topic(members, partitions).items():
            subscribed = set(subscribers)
            for number in range(partitions[topic]):
                member = next(member for member in turns if member in subscribed)
                assigned[member].append(TopicPartition(topic, number))
        return assigned
