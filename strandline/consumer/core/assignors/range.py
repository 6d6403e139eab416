"""Assigns, topic by topic, a contiguous range of partitions to each member.

Partition 3 of a topic goes to the member that has partition 3 of every other topic with the same
number of partitions and the same subscribers, so topics with the same keys are co-located. The
remainder of each topic goes to the first members again: with many small topics they get more than
the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline.consumer.core.assignors.assignor import MemberSubscription, subscribers_by_topic
from strandline.ids import TopicPartition


class RangeAssignor:
    """Kafka's "range"; its assignments are identical."""

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
