"""Reads internal topics to their ends, as clients may."""

from __future__ import annotations

import json

from strandline.client.reading.records import ConsumerRecord
from strandline.consumer.consumer import Consumer
from strandline.errors import UnknownTopicOrPartition
from strandline.host import Host
from strandline.ids import GROUP_EVENTS_TOPIC, TopicPartition
from strandline_lab.auditing.ownership import GroupEvent
from strandline_lab.simulation.stage import Stage

GET_MS_MAX = 500


async def records(stage: Stage, host: Host, topic: str, number: int | None = None) -> list[ConsumerRecord]:
    """All records of a topic, or of one partition, the partitions one after the other; none if there is no
    such topic."""
    found: list[ConsumerRecord] = []
    async with Consumer(stage.cluster.bootstrap, host=host, offset_reset="earliest") as consumer:
        try:
            numbers = await consumer.partitions_for(topic)
        except UnknownTopicOrPartition:
            return []
        for each in numbers if number is None else (number,):
            name = TopicPartition(topic, each)
            end = (await consumer.end_offsets([name]))[name]
            consumer.assign([name])
            while await consumer.position(name) < end:
                found += (await consumer.getmany(timeout_ms=GET_MS_MAX)).get(name, [])
    return found


async def group_events(stage: Stage, host: Host) -> list[GroupEvent]:
    """The events of all groups, in the order of each group. One that was recorded twice is there twice."""
    return [
        _group_event(json.loads(each.value or b"")) for each in await records(stage, host, GROUP_EVENTS_TOPIC)
    ]


def _group_event(fields: dict[str, object]) -> GroupEvent:
    return GroupEvent(
        event=str(fields["event"]),
        group=str(fields["group"]),
        generation=int(str(fields["generation"])),
        at_ms=int(str(fields["at_ms"])),
        member=str(fields.get("member", "")),
    )
