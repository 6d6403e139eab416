"""Reads what coordinators wrote of a group, from `__consumer_offsets`."""

from __future__ import annotations

from strandline.broker.coordinators.placement import partition_of
from strandline.broker.core.groups.stored import read_key, read_record
from strandline.consumer.consumer import Consumer
from strandline.host import Host
from strandline.ids import OFFSETS_TOPIC
from strandline_lab.simulation import internal_topics
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.assigned.decisions import Written


async def decisions(stage: Stage, host: Host, group: str) -> list[Written]:
    """All records of a group and its offsets, in the order of the log."""
    async with Consumer(stage.cluster.bootstrap, host=host) as consumer:
        partitions = await consumer.partitions_for(OFFSETS_TOPIC)
    number = partition_of(group, len(partitions))
    found: list[Written] = []
    for each in await internal_topics.records(stage, host, OFFSETS_TOPIC, number):
        key = read_key(each.key or b"")
        if key.group == group:
            found.append(Written(each.timestamp, read_record(key, each.value, each.headers)))
    return found
