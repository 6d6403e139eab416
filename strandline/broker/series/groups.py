"""The offsets of consumer groups, under the names that kafka-exporter gives them.

The lag of a group is the difference to `kafka_topic_partition_current_offset` of the partition, from
`kafka_topic_partition_oldest_offset` on. The broker
that coordinates a group need not have its partitions, so the lag is for those who scrape all brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from strandline.adapters.telemetry.metrics import Sample, gauge
from strandline.broker.core.groups.coordinator import GroupOffsets

OFFSET: Final = gauge(
    "kafka_consumergroup_current_offset",
    "The committed offset of a group that this broker coordinates.",
    "consumergroup", "topic", "partition",
)  # fmt: skip
MEMBERS: Final = gauge(
    "kafka_consumergroup_members", "Members of a group that this broker coordinates.", "consumergroup"
)
OFFSETS: Final = gauge(
    "kafka_coordinator_group_groupmetadatamanager_numoffsets",
    "Committed offsets of all groups that this broker coordinates.",
)
LEFT_OUT: Final = gauge(
    "strandline_group_offsets_without_series",
    "Of these, offsets without a series of their own, because there are more than `metrics_partitions_max`.",
)

GROUP_METRICS: Final = (OFFSETS, MEMBERS, OFFSET, LEFT_OUT)


class GroupSeries:
    """At most `offsets_max` offsets, and the members of as many groups. Their samples are made when this is
    iterated."""

    def __init__(self, groups: Iterable[GroupOffsets], offsets_max: int) -> None:
        self._members: list[tuple[str, int]] = []
        self._offsets: list[tuple[str, str, int, int]] = []
        self._total = 0
        for group, members, offsets in groups:
            self._total += len(offsets)
            if len(self._members) < offsets_max:
                self._members.append((group, members))
            # All of a group's offsets or none: a part would look like all of them.
            if len(self._offsets) + len(offsets) <= offsets_max:
                self._offsets += [
                    (group, name.topic, name.partition, committed.offset)
                    for name, committed in offsets.everything().items()
                ]

    def __iter__(self) -> Iterator[Sample]:
        yield OFFSETS.is_now(self._total)
        yield LEFT_OUT.is_now(self._total - len(self._offsets))
        for group, members in self._members:
            yield Sample(MEMBERS, (group,), members)
        for group, topic, partition, offset in self._offsets:
            yield Sample(OFFSET, (group, topic, str(partition)), offset)
