"""All partitions of all topics in one row, dealt to the members in turn.

With equal subscriptions members differ by one partition at most. With different ones they may differ by a
lot: who does not subscribe to what is being dealt is passed over, and not made up to.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Final

from strandline.consumer.core.assignors.assignor import MemberSubscription, in_order, subscribers_by_topic
from strandline.ids import TopicPartition


class RoundRobinAssignor:
    """Kafka's "roundrobin", the same to the partition."""

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
