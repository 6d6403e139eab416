"""The records of `__group_events`: each is one event of a group, as JSON (docs/use/groups.md, "Events")."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, Final

from strandline.broker.core.groups.effects import GroupEvent

VERSION: Final = 1
"""The version of the schema. A new field does not change it: readers ignore unknown fields."""


def event_key(event: GroupEvent) -> bytes:
    """The group: its events are in one partition, in order."""
    return event.group.encode()


def event_value(event: GroupEvent) -> bytes:
    """One JSON object. Fields that do not apply to a kind of event are left out."""
    fields: dict[str, Any] = {
        "version": VERSION,
        "event": event.kind.value,
        "group": event.group,
        "generation": event.generation,
        "at_ms": event.at_ms,
    }
    for name, text in (("member", event.member), ("reason", event.reason), ("caused_by", event.caused_by)):
        if text:
            fields[name] = text
    if event.type:
        fields["type"] = event.type
    if event.task:
        fields["task"] = event.task
    for name, number in (
        ("lag", event.lag), ("records_per_s", round(event.records_per_s, 3)),
        ("remaining_ms", event.remaining_ms),
    ):  # fmt: skip
        if number >= 0:
            fields[name] = number
    if event.partitions:
        by_topic: defaultdict[str, list[int]] = defaultdict(list)
        for topic, partition in event.partitions:
            by_topic[topic].append(partition)
        fields["partitions"] = {topic: sorted(numbers) for topic, numbers in sorted(by_topic.items())}
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
