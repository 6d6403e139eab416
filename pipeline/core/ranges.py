"""Which offsets a query reads, in which pieces, and what of them the log has no more."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from strandline.ids import TopicPartition
from strandline.pipeline.core.offsets import Offsets


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The offsets from `start` to before `end` of one partition of the topic with this id."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """How many offsets; compaction may have left fewer records."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offsets {self.start} to {self.end - 1}"


@dataclass(frozen=True, slots=True)
class DataLoss:
    """Offsets from `start` to before `end` that cannot be read any more; `end` None: who knows how many."""

    name: TopicPartition
    start: int
    end: int | None
    why: str

    def __str__(self) -> str:
        where = (
            f"from offset {self.start} on" if self.end is None else f"offsets {self.start} to {self.end - 1}"
        )
        return f"{self.name} has lost {where}: {self.why}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a log starts, and its high watermark."""

    start: int
    end: int


def begun_later(name: TopicPartition, start: int, log_start: int, end: int) -> DataLoss:
    """The loss of what lies below the start of a log."""
    why = f"the log starts at offset {log_start}, retention has deleted what was before"
    return DataLoss(name, start, min(log_start, end), why)


def ended_earlier(name: TopicPartition, start: int, end: int, log_end: int) -> DataLoss:
    """The loss of what a log had once, and has no more above its high watermark of now."""
    return DataLoss(name, start, end, f"the log ends at offset {log_end} now, it was truncated")


def created_again(name: TopicPartition, start: int, old: str, new: str) -> DataLoss:
    """The loss of what was not read of a topic when it was deleted."""
    why = f"the topic was deleted, and another one has its name now (id {new} in place of {old})"
    return DataLoss(name, start, None, why)


def deleted(name: TopicPartition, start: int) -> DataLoss:
    """The loss of what was not read of a topic when it was deleted."""
    return DataLoss(name, start, None, "the topic does not exist any more")


def begin_in_log(wanted: OffsetRange, bounds: Bounds) -> tuple[OffsetRange, DataLoss | None]:
    """The part of a range that a log has not deleted, and what it has."""
    if wanted.start >= bounds.start or not wanted.size:
        return wanted, None
    loss = begun_later(wanted.name, wanted.start, bounds.start, wanted.end)
    return replace(wanted, start=min(bounds.start, wanted.end)), loss


# --- in pieces --------------------------------------------------------------------------------


def pieces(ranges: Iterable[OffsetRange], *, at_least: int, records_max: int | None) -> list[OffsetRange]:
    """The ranges, none of them empty, cut so that none has more than `records_max` offsets and there are
    `at_least` as many, if there are as many offsets. Together they are the same offsets, in order.
    """
    wanted = [one for one in ranges if one.size > 0]
    counts = [1 if records_max is None else -(-one.size // records_max) for one in wanted]
    missing = at_least - sum(counts)
    # The one whose pieces are the largest is cut into one more, until there are enough.
    largest = [
        (-one.size / count, index, count)
        for index, (one, count) in enumerate(zip(wanted, counts, strict=True))
    ]
    heapq.heapify(largest)
    while missing > 0 and largest:
        _, index, count = heapq.heappop(largest)
        if count < wanted[index].size:
            counts[index] = count + 1
            missing -= 1
            heapq.heappush(largest, (-wanted[index].size / (count + 1), index, count + 1))
    return [piece for one, count in zip(wanted, counts, strict=True) for piece in _cut(one, count)]


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Into pieces whose sizes differ by one at most."""
    edges = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [replace(whole, start=start, end=end) for start, end in pairwise(edges) if start < end]


# --- how much at a time -----------------------------------------------------------------------


def limited(starts: Offsets, ends: Offsets, most: int) -> dict[TopicPartition, int]:
    """Ends for a batch of `most` offsets: as many in all, or all there are. A partition that `starts` has
    not begins at 0, and one whose end is not above its start keeps its end.

    Each partition's share is in proportion to what there is of it, and at least one offset. Where `most` is
    less than there are partitions, they take turns: the batch after this one goes on behind its last.
    """
    backlog = {name: ends[name] - starts.get(name, 0) for name in sorted(ends)}
    waiting = [name for name, size in backlog.items() if size > 0]
    total = sum(backlog[name] for name in waiting)
    if total <= most:
        return dict(ends)
    if most <= len(waiting):
        turn = sum(starts.values()) % len(waiting)
        chosen = (waiting[turn:] + waiting[:turn])[:most]
        shares = dict.fromkeys(chosen, 1)
    else:
        shares = _proportional({name: backlog[name] for name in waiting}, most)
    behind = {name: starts.get(name, 0) + shares.get(name, 0) for name in waiting}
    return {name: behind.get(name, end) for name, end in ends.items()}


def _proportional(backlog: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    """One offset for each, and of the rest its part, rounded so that the sum is exact: who lost the most by
    rounding down gets one more."""
    spare, total = most - len(backlog), sum(backlog.values()) - len(backlog)
    shares: dict[TopicPartition, int] = {}
    lost: list[tuple[int, TopicPartition]] = []
    for name, size in backlog.items():
        whole, remainder = divmod(spare * (size - 1), total)
        shares[name] = 1 + whole
        lost.append((-remainder, name))
    for _, name in sorted(lost)[: most - sum(shares.values())]:
        shares[name] += 1
    return shares


def backlog(starts: Offsets, ends: Offsets) -> int:
    """Offsets that wait to be read."""
    return sum(max(0, end - starts.get(name, 0)) for name, end in ends.items())
