"""Partitions as `topic describe` and `status` show them: who leads, who is in sync, who is behind by how
much."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from strandline.report.text.durations import age
from strandline.report.text.replicas import is_behind, lag_text, progress_row
from strandline.report.text.sizes import size

if TYPE_CHECKING:
    from strandline.client.admin.topics import PartitionDescription, TopicDescription
    from strandline.vocabulary.log import ReplicaProgress

FILTERS: Final = {
    "under_replicated": "partitions with fewer replicas in sync than are assigned.",
    "leaderless": "partitions that no broker leads.",
    "below_min_isr": "partitions with fewer replicas in sync than min.insync.replicas: acks=all is refused.",
    "at_min_isr": "partitions with exactly min.insync.replicas in sync.",
}
"""By the names of conditions, the partitions that an option selects."""

PARTITION_COLUMNS: Final = ("partition", "leader", "epoch", "replicas", "isr", "hw", "leo", "behind")


def partition_rows(description: TopicDescription) -> list[dict[str, Any]]:
    """A topic's partitions as JSON; unknown values are null."""
    return [
        {
            "partition": partition.partition,
            "leader": partition.leader,
            "epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "hw": partition.high_watermark,
            "leo": partition.log_end_offset,
            "size_bytes": partition.size_bytes,
            "conditions": sorted(condition.value for condition in partition.conditions),
            "progress": None if partition.progress is None else [progress_row(p) for p in partition.progress],
        }
        for partition in description.partitions
    ]


def partition_table(description: TopicDescription) -> list[list[object]]:
    """The same for people, in PARTITION_COLUMNS."""
    return [
        [
            partition.partition,
            partition.leader,
            partition.leader_epoch,
            partition.replicas,
            partition.isr,
            partition.high_watermark,
            partition.log_end_offset,
            _behind(partition),
        ]
        for partition in description.partitions
    ]


def _behind(partition: PartitionDescription) -> str | None:
    if partition.progress is None:
        return None
    return "; ".join(lag_text(each) for each in partition.progress if is_behind(each)) or "none"


# --- a selection --------------------------------------------------------------------------------


def condition_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds an option for each condition of FILTERS."""
    for name, what in reversed(FILTERS.items()):
        flag = f"--{name.replace('_', '-')}"
        command = click.option(flag, name, is_flag=True, help=f"Only {what}")(command)
    return command


def with_any(topics: Iterable[TopicDescription], wanted: Collection[str]) -> list[TopicDescription]:
    """The topics with those of their partitions for which one of these conditions holds; topics without such
    a partition are left out."""
    found = []
    for topic in topics:
        partitions = [p for p in topic.partitions if any(each.value in wanted for each in p.conditions)]
        if partitions:
            found.append(replace(topic, partitions=tuple(partitions)))
    return found


# --- of all topics ------------------------------------------------------------------------------


def summary(topics: Sequence[TopicDescription]) -> dict[str, Any]:
    """What is wrong in the cluster, and how far replicas are behind: in all, and the one that is behind for
    the longest time."""
    from strandline.client.admin.topics import Condition

    partitions = [partition for topic in topics for partition in topic.partitions]
    wrong = {
        condition.value: sum(condition in each.conditions for each in partitions) for condition in Condition
    }
    behind = list(_all_behind(topics))
    worst = max(behind, key=lambda each: (each[2].lag_ms, each[2].lag), default=None)
    return {
        "partitions": len(partitions),
        **wrong,
        "lag": sum(max(0, each.lag) for _, _, each in behind),
        "lag_bytes": sum(max(0, each.lag_bytes) for _, _, each in behind),
        "unknown": sum(each.lag < 0 for _, _, each in behind),
        "worst": None
        if worst is None
        else {"topic": worst[0], "partition": worst[1], **progress_row(worst[2])},
    }


def _all_behind(
    topics: Sequence[TopicDescription],
) -> Iterator[tuple[str, int, ReplicaProgress]]:
    for topic in topics:
        for partition in topic.partitions:
            for progress in partition.progress or ():
                if is_behind(progress):
                    yield topic.name, partition.partition, progress


def summary_line(found: dict[str, Any]) -> str:
    """The summary for people."""
    wrong = [
        f"{found[name]} {words}"
        for name, words in (
            ("leaderless", "without a leader"),
            ("below_min_isr", "below min.insync.replicas"),
            ("under_replicated", "under-replicated"),
        )
        if found[name]
    ]
    line = f"{found['partitions']} partitions: {', '.join(wrong) or 'all led and fully replicated'}"
    if (worst := found["worst"]) is None:
        return line
    behind = f"{found['lag']:,} offsets, {size(found['lag_bytes'])} in all"
    if found["unknown"]:
        behind += f", {found['unknown']} of unknown lag"
    where = f"{worst['topic']}-{worst['partition']} on broker {worst['broker']}"
    return f"{line}; replicas are behind by {behind}, longest that of {where}: {age(worst['lag_ms'])}"
