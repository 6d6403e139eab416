"""Compares the position of a stream with the present logs, by the leader epochs of the records before it.

A leader in the same epoch has lost nothing, so no broker is asked while leaders stay: where a leader is new,
it says where an epoch ended.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.ids import TopicPartition
from strandline.pipeline.core import progress
from strandline.pipeline.core.offsets import StreamOffset
from strandline.pipeline.reading.cluster_facts import ClusterFacts, Snapshot
from strandline.vocabulary.log_position import LogPosition, Match, compare, same_topic


def ends_of(seen: Snapshot) -> StreamOffset:
    """The ends of all logs."""
    return StreamOffset({name: bounds.end for name, bounds in seen.bounds.items()}, seen.ids)


def is_settled(begun: StreamOffset, seen: Snapshot) -> bool:
    """False if leaders may not know yet all that was read: a new one hides committed records for a moment
    (KIP-207), and one that was replaced may still answer."""
    return not progress.behind(begun, ends_of(seen)) and all(
        seen.bounds[name].leader_epoch >= epoch for name, epoch in _known_epochs(begun, seen).items()
    )


async def moved_positions(
    facts: ClusterFacts, begun: StreamOffset, seen: Snapshot
) -> dict[TopicPartition, LogPosition]:
    """For each log that has lost the record before a position: where it goes on (KIP-320)."""
    doubted = {
        name: epoch
        for name, epoch in _known_epochs(begun, seen).items()
        if epoch != seen.bounds[name].leader_epoch
    }
    moved: dict[TopicPartition, LogPosition] = {}
    for name, listed in (await facts.epoch_ends(doubted)).items():
        kept, end = begun.at(name), listed.end
        if compare(kept, listed.topic_id, end) is Match.CUT:
            start = seen.bounds[name].start
            moved[name] = (
                LogPosition(end.end_offset, kept.topic_id, end.epoch)
                if end.end_offset > start
                else LogPosition(start, kept.topic_id)
            )
    return moved


def _known_epochs(begun: StreamOffset, seen: Snapshot) -> dict[TopicPartition, int]:
    """The epochs before the positions in the topics that are still there."""
    present = ends_of(seen)
    return {
        name: epoch
        for name, epoch in begun.epochs.items()
        if name in seen.bounds and same_topic(begun.topic_id(name.topic), present.topic_id(name.topic))
    }


async def epochs_before(
    facts: ClusterFacts, begun: StreamOffset, end: StreamOffset, seen: Snapshot
) -> Mapping[TopicPartition, int]:
    """The epoch of the record before each offset of `end`, a position after `begun` that is in the logs.
    Those of records that are gone are left out."""
    found: dict[TopicPartition, int] = {}
    doubted: dict[TopicPartition, int] = {}
    """The largest epoch that each may have."""
    for name, offset in end.offsets.items():
        bounds = seen.bounds.get(name)
        if bounds is None or offset <= bounds.start:
            continue
        known = begun.at(name) if name in begun.offsets else LogPosition(0)
        same = same_topic(known.topic_id, end.topic_id(name.topic))
        if same and (offset == known.offset or known.leader_epoch == bounds.leader_epoch):
            found[name] = known.leader_epoch
        else:
            doubted[name] = bounds.leader_epoch
    while doubted:
        before = {name: epoch - 1 for name, epoch in doubted.items() if epoch > 0}
        found.update((name, epoch) for name, epoch in doubted.items() if name not in before)
        ends = await facts.epoch_ends(before)
        found.update(
            (name, doubted[name]) for name, each in ends.items() if each.end_offset < end.offsets[name]
        )
        doubted = {name: each.epoch for name, each in ends.items() if name not in found}
    return found
