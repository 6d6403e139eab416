"""Computes the next position of a stream, and the data that was lost before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from strandline.ids import TopicId, TopicPartition
from strandline.pipeline.core.offsets import Offsets, StreamOffset
from strandline.pipeline.core.ranges import DataLoss, OffsetRange, created_again, deleted, limited
from strandline.vocabulary.log_position import is_foreign, same_topic


def behind(begun: StreamOffset, latest: StreamOffset) -> list[TopicPartition]:
    """Partitions of unchanged topics whose log ends before the position already read."""
    return sorted(
        name
        for name, start in begun.offsets.items()
        if latest.offsets.get(name, start) < start and _same(name.topic, begun, latest)
    )


def starts_in(begun: StreamOffset, ids: Mapping[str, str]) -> dict[TopicPartition, int]:
    """The starts of a batch in the topics with these ids; a missing partition begins at 0."""
    present = {topic: TopicId(topic_id) for topic, topic_id in ids.items()}
    return {
        name: offset
        for name, offset in begun.offsets.items()
        if not is_foreign(begun.topic_id(name.topic), present.get(name.topic))
    }


def until(target: StreamOffset, begun: StreamOffset, latest: StreamOffset) -> StreamOffset:
    """`latest`, but at most `target`: later records, partitions and topics are left out."""
    ends = {
        name: max(min(end, target.offsets[name]), min(end, begun.offsets.get(name, 0)))
        for name, end in latest.offsets.items()
        if name in target.offsets and _same(name.topic, target, latest)
    }
    return StreamOffset(ends, latest.ids)


def to_read(begun: StreamOffset, latest: StreamOffset, log_starts: Offsets) -> dict[TopicPartition, int]:
    """For each partition the first offset that can still be read."""
    starts = starts_in(begun, latest.ids)
    return {name: max(starts.get(name, 0), log_starts.get(name, 0)) for name in latest.offsets}


def advance(
    begun: StreamOffset, latest: StreamOffset, log_starts: Offsets, *, most: int | None, first: bool
) -> StreamOffset:
    """The end of the batch that begins at `begun`: `latest`, or at most `most` offsets later.

    Offsets that the logs no longer have do not count: a batch skips them, however many they are. `first`: the
    batch does not begin where one ended that the checkpoint has, so it contains its begin.
    """
    starts = starts_in(begun, latest.ids)
    there = to_read(begun, latest, log_starts)
    ends: Offsets = latest.offsets if most is None else limited(there, latest.offsets, most)
    since = {name: start for name, start in starts.items() if name in ends} if first else None
    return StreamOffset(ends, latest.ids, since)


def same_place(one: StreamOffset, other: StreamOffset) -> bool:
    """Whether there is nothing between two positions."""
    topics = {name.topic for name in one.offsets}
    return dict(one.offsets) == dict(other.offsets) and all(_same(topic, one, other) for topic in topics)


@dataclass(frozen=True, slots=True)
class Step:
    """The range of each partition between two positions of a stream, possibly empty, and the losses."""

    ranges: Sequence[OffsetRange]
    losses: Sequence[DataLoss]


def step(begun: StreamOffset, ended: StreamOffset) -> Step:
    """The ranges to read from `begun` to `ended`, and what was lost in between.

    New partitions begin at 0, and so do those of a topic that was created again. Partitions that are missing
    in `ended` were deleted with their topic.
    """
    if ended.since is not None:
        begun = replace(begun, offsets=ended.since, ids=ended.ids)
    losses = [deleted(name, at) for name, at in sorted(begun.offsets.items()) if name not in ended.offsets]
    ranges = []
    for name in sorted(ended.offsets):
        start, topic_id = begun.offsets.get(name, 0), ended.topic_id(name.topic)
        before = begun.topic_id(name.topic)
        if not same_topic(before, topic_id):
            if name in begun.offsets:
                losses.append(created_again(name, start, before, topic_id))
            start = 0
        end = max(start, ended.offsets[name])
        ranges.append(OffsetRange(name.topic, name.partition, start, end, topic_id))
    return Step(ranges, losses)


def _same(topic: str, one: StreamOffset, other: StreamOffset) -> bool:
    """Whether the topic is the same, as far as both positions know its id."""
    return same_topic(one.topic_id(topic), other.topic_id(topic))
