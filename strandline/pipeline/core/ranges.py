"""Offset ranges of a query, their division into pieces, and the data that the log has lost."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from strandline.ids import NO_EPOCH, TopicPartition
from strandline.pipeline.core.offsets import Offsets


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The offsets from `start` to before `end` of one partition of the topic with this id."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str
    leader_epoch: int = field(default=NO_EPOCH, compare=False)
    """Of the partition when the range was planned: a broker that knows only earlier ones may have another
    topic under the name."""

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets; compaction may have left fewer records."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offsets {self.start} to {self.end - 1}"


@dataclass(frozen=True, slots=True)
class DataLoss:
    """Offsets from `start` to before `end` that can no longer be read; `end` None: unknown."""

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
    """The start of a log, its high watermark, and the epoch of its leader."""

    start: int
    end: int
    leader_epoch: int = NO_EPOCH


def begun_later(name: TopicPartition, start: int, log_start: int, end: int) -> DataLoss:
    """The loss of offsets below the start of a log."""
    why = f"the log starts at offset {log_start}, retention has deleted what was before"
    return DataLoss(name, start, min(log_start, end), why)


def ended_earlier(name: TopicPartition, start: int, end: int, log_end: int) -> DataLoss:
    """The loss of offsets above the current high watermark of a log, which had them once."""
    return DataLoss(name, start, end, f"the log ends at offset {log_end} now, it was truncated")


def cut_away(name: TopicPartition, start: int, end: int) -> DataLoss:
    """The loss of records that were read, in a log that may have grown again since."""
    why = f"an election with a loss has cut the log there, what has offset {start} now is another record"
    return DataLoss(name, min(start, end - 1), end, why)


def created_again(name: TopicPartition, start: int, old: str, new: str) -> DataLoss:
    """The loss of a deleted topic's unread records."""
    why = f"the topic was deleted, and another one has its name now (id {new} in place of {old})"
    return DataLoss(name, start, None, why)


def deleted(name: TopicPartition, start: int) -> DataLoss:
    """The loss of a deleted topic's unread records."""
    return DataLoss(name, start, None, "the topic no longer exists")


def begin_in_log(wanted: OffsetRange, bounds: Bounds) -> tuple[OffsetRange, DataLoss | None]:
    """The part of a range that the log still has, and the loss of the rest."""
    if wanted.start >= bounds.start or not wanted.size:
        return wanted, None
    loss = begun_later(wanted.name, wanted.start, bounds.start, wanted.end)
    return replace(wanted, start=min(bounds.start, wanted.end)), loss


# --- division into pieces --------------------------------------------------------------------


def pieces(ranges: Iterable[OffsetRange], *, at_least: int, records_max: int | None) -> list[OffsetRange]:
    """The ranges, without empty ones, cut so that none has more than `records_max` offsets and there are
    `at_least` that many pieces, if there are enough offsets. Together they have the same offsets, in order.
    """
    wanted = [one for one in ranges if one.size > 0]
    counts = [1 if records_max is None else -(-one.size // records_max) for one in wanted]
    missing = at_least - sum(counts)
    # The range with the largest pieces is cut into one more, until there are enough.
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
    """Cut a range into pieces whose sizes differ by at most one."""
    edges = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [replace(whole, start=start, end=end) for start, end in pairwise(edges) if start < end]


# --- limits of a batch -----------------------------------------------------------------------


def limited(starts: Offsets, ends: Offsets, most: int) -> dict[TopicPartition, int]:
    """The ends of a batch of `most` offsets in total, or of all that there are. A partition missing in
    `starts` begins at 0, and one whose end is not above its start keeps its end.

    Each partition's share is proportional to its backlog, and at least one offset. If `most` is less than the
    number of partitions, they take turns: the next batch continues after the last partition of this one.
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
    """One offset for each partition, and a proportional share of the rest. Shares are rounded down; the
    partitions with the largest remainders get one more, so that the sum is exact."""
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
    """The number of offsets that wait to be read."""
    return sum(max(0, end - starts.get(name, 0)) for name, end in ends.items())
