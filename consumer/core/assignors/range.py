"""Topic by topic, to each member a run of neighbouring partitions.

Partition 3 of a topic goes to the member that has partition 3 of every other topic with as many partitions
and the same subscribers, so topics that are keyed alike meet in one member. What a topic leaves over goes to
the first members, of each topic again: with many small topics they get more than the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline.consumer.core.assignors.assignor import MemberSubscription, subscribers_by_topic
from strandline.ids import TopicPartition


class RangeAssignor:
    """Kafka's "range", the same to the partition."""

    name: Final = "range"

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        """See `Assignor.assign`."""
        assigned: dict[str, list[TopicPartition]] = {member: [] for member in members}
        for topic, subscribers in subscribers_by_topic(members, partitions).items():
            each, over = divmod(partitions[topic], len(subscribers))
            start = 0
            for place, member in enumerate(subscribers if each else subscribers[:over]):
                stop = start + each + (place < over)
                assigned[member] += (TopicPartition(topic, number) for number in range(start, stop))
                start = stop
        return assigned
