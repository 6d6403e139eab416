"""From one batch of a stream to the next: how far, and what of that is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from strandline.ids import TopicPartition
from strandline.pipeline.core.offsets import Offsets, StreamOffset
from strandline.pipeline.core.ranges import DataLoss, OffsetRange, created_again, deleted, limited


def behind(begun: StreamOffset, latest: StreamOffset) -> list[TopicPartition]:
    """Partitions whose log ends before what was read of it already, though their topic is the same."""
    return sorted(
        name
        for name, start in begun.offsets.items()
        if latest.offsets.get(name, start) < start and _same(name.topic, begun, latest)
    )


def starts_in(begun: StreamOffset, ids: Mapping[str, str]) -> dict[TopicPartition, int]:
    """Where a batch begins in the topics of these ids; a partition that is missing begins at 0."""
    return {
        name: offset
        for name, offset in begun.offsets.items()
        if begun.ids.get(name.topic, ids.get(name.topic)) == ids.get(name.topic)
    }


def until(target: StreamOffset, begun: StreamOffset, latest: StreamOffset) -> StreamOffset:
    """No further than `target`: what came later is not there yet, be it records, partitions or topics."""
    ends = {
        name: max(min(end, target.offsets[name]), min(end, begun.offsets.get(name, 0)))
        for name, end in latest.offsets.items()
        if name in target.offsets and _same(name.topic, target, latest)
    }
    return StreamOffset(ends, latest.ids)


def to_read(begun: StreamOffset, latest: StreamOffset, log_starts: Offsets) -> dict[TopicPartition, int]:
    """For each partition the first offset that is still there to be read."""
    starts = starts_in(begun, latest.ids)
    return {name: max(starts.get(name, 0), log_starts.get(name, 0)) for name in latest.offsets}


def advance(
    begun: StreamOffset, latest: StreamOffset, log_starts: Offsets, *, most: int | None, first: bool
) -> StreamOffset:
    """The end of the batch that begins at `begun`: `latest`, or `most` offsets on.

    What logs have no more does not count: a batch goes over it, however much it is. The `first` batch of a
    stream says where it begins.
    """
    starts = starts_in(begun, latest.ids)
    there = to_read(begun, latest, log_starts)
    ends: Offsets = latest.offsets if most is None else limited(there, latest.offsets, most)
    since = {name: start for name, start in starts.items() if name in ends} if first else None
    return StreamOffset(ends, latest.ids, since)


def same_place(one: StreamOffset, other: StreamOffset) -> bool:
    """Whether there is nothing between them."""
    topics = {name.topic for name in one.offsets}
    return dict(one.offsets) == dict(other.offsets) and all(_same(topic, one, other) for topic in topics)


@dataclass(frozen=True, slots=True)
class Step:
    """What there is between two offsets of a stream: ranges, some of them empty, and what is lost."""

    ranges: Sequence[OffsetRange]
    losses: Sequence[DataLoss]


def step(begun: StreamOffset, ended: StreamOffset) -> Step:
    """What there is to read from `begun` to `ended`, and what is lost in between.

    Partitions that are new begin at 0, and so do those of a topic that was created again. Those that `ended`
    has no more went with their topic.
    """
    if ended.since is not None:
        begun = replace(begun, offsets=ended.since, ids=ended.ids)
    losses = [deleted(name, at) for name, at in sorted(begun.offsets.items()) if name not in ended.offsets]
    ranges = []
    for name in sorted(ended.offsets):
        start, topic_id = begun.offsets.get(name, 0), ended.ids.get(name.topic, "")
        before = begun.ids.get(name.topic, topic_id)
        if before != topic_id:
            if name in begun.offsets:
                losses.append(created_again(name, start, before, topic_id))
            start = 0
        end = max(start, ended.offsets[name])
        ranges.append(OffsetRange(name.topic, name.partition, start, end, topic_id))
    return Step(ranges, losses)


def _same(topic: str, one: StreamOffset, other: StreamOffset) -> bool:
    """Whether it is one topic, as far as both know its id."""
    return one.ids.get(topic, other.ids.get(topic)) == other.ids.get(topic, one.ids.get(topic))
