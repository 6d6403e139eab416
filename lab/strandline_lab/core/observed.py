"""What an observer sees of partitions, as values and as lines of `observations.jsonl`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from strandline.auditing.cluster import Observation
from strandline.client.admin.topics import TopicDescription


def observed(at_ms: int, observer: str, topics: Iterable[TopicDescription]) -> list[Observation]:
    """All partitions of these topics, as they were described to this observer."""
    return [
        Observation(
            at_ms,
            observer,
            topic.name,
            each.partition,
            each.leader,
            each.leader_epoch,
            tuple(each.isr),
            each.high_watermark,
            each.log_end_offset,
        )
        for topic in topics
        for each in topic.partitions
    ]


def line_of(each: Observation) -> dict[str, Any]:
    """`strandline.report.round_files` reads it."""
    return {
        "at_ms": each.at_ms,
        "observer": each.observer,
        "topic": each.topic,
        "partition": each.partition,
        "leader": each.leader,
        "epoch": each.epoch,
        "isr": list(each.isr),
        "hw": each.watermark,
        "leo": each.end,
    }
