"""The positions of a reader of an internal topic, and the fetched batches that wait for it.

A partition has two positions: `fetched`, behind the last batch from its leader, and `handed_out`, behind the
last batch that the owner of the reader has. An answer counts only if it begins at the next wanted offset,
whichever leader sent it. So a record that two leaders send during a failover is taken once. With `fetched`
goes the leader epoch of the record before it, so that a leader whose log has lost that record says so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from strandline.ids import NO_EPOCH, TopicPartition
from strandline.records import BatchHeader, decode_columns, validate
from strandline.vocabulary.log_position import EpochEnd


class EventRecord(NamedTuple):
    """One committed record. `timestamp_ms` counts from the Unix epoch."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(slots=True, eq=False)
class EventPosition:
    """The positions in one partition, which is read up to `end`; None: without an end."""

    name: TopicPartition
    fetched: int
    handed_out: int
    end: int | None
    epoch: int = NO_EPOCH
    """Of the record before `fetched`."""

    @property
    def complete(self) -> bool:
        return self.end is not None and self.fetched >= self.end


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One batch, not decoded yet. Its offsets from `first` on and below `end` are wanted."""

    position: EventPosition
    header: BatchHeader
    data: bytes
    first: int
    end: int


class EventPositions:
    """All partitions of one topic, by number. At most `buffer_bytes` and one more answer wait."""

    def __init__(
        self, topic: str, starts: Sequence[int], ends: Sequence[int] | None, *, buffer_bytes: int
    ) -> None:
        self._topic = topic
        self._follows = ends is None
        self._buffer_bytes = buffer_bytes
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._positions = [
            EventPosition(TopicPartition(topic, number), start, start, None if ends is None else ends[number])
            for number, start in enumerate(starts)
        ]

    def __iter__(self) -> Iterator[EventPosition]:
        return iter(self._positions)

    def __getitem__(self, partition: int) -> EventPosition:
        return self._positions[partition]

    def __len__(self) -> int:
        return len(self._positions)

    def grow(self, partitions: int) -> None:
        """The topic has this many partitions: a reader that follows it reads new ones from their start."""
        while self._follows and len(self) < partitions:
            self._positions.append(EventPosition(TopicPartition(self._topic, len(self)), 0, 0, None))

    # --- fetching ----------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        return self._waiting_bytes < self._buffer_bytes

    def wanted(self, led: Callable[[TopicPartition], bool]) -> list[EventPosition]:
        """The incomplete partitions for which `led` is True."""
        return [position for position in self if not position.complete and led(position.name)]

    def arrived(self, position: EventPosition, offset: int, records: bytes) -> bool:
        """Keep the records that a leader sent from `offset` on; True if they were still wanted.

        Raises CorruptMessage, InvalidRecord, UnsupportedCompression.
        """
        if position.fetched != offset or position.complete:
            return False
        headers = validate(records)
        for header in headers:
            first, end = max(header.base_offset, offset), header.next_offset
            if position.end is not None:
                end = min(end, position.end)
            if end <= first:
                continue
            if not header.is_control:
                self._waiting.append(_Waiting(position, header, records, first, end))
                self._waiting_bytes += header.size
            position.fetched, position.epoch = end, header.leader_epoch
        return position.fetched > offset

    def skip_to(self, position: EventPosition, offset: int) -> None:
        """The records before `offset` were deleted."""
        position.fetched, position.epoch = max(position.fetched, offset), NO_EPOCH

    def cut(self, position: EventPosition, at: EpochEnd, high_watermark: int) -> None:
        """The log has lost the records from `at` on (KIP-320): forget those that wait, and read on there."""
        kept = [each for each in self._waiting if each.position is not position or each.end <= at.end_offset]
        self._waiting_bytes = sum(each.header.size for each in kept)
        self._waiting = deque(kept)
        position.fetched, position.epoch = min(position.fetched, at.end_offset), at.epoch
        position.handed_out = min(position.handed_out, position.fetched)
        if position.end is not None and high_watermark >= 0:
            position.end = max(position.fetched, min(position.end, high_watermark))

    # --- handing out -------------------------------------------------------------------------

    def take(self) -> list[EventRecord] | None:
        """The records of the oldest batch; None while nothing waits. Raises as `arrived`."""
        if not self._waiting:
            return None
        batch = self._waiting.popleft()
        self._waiting_bytes -= batch.header.size
        offsets, timestamps, keys, values, _ = decode_columns(batch.data, batch.header)
        first, end = bisect_left(offsets, batch.first), bisect_left(offsets, batch.end)
        batch.position.handed_out = batch.end
        rows = zip(offsets[first:end], timestamps[first:end], keys[first:end], values[first:end], strict=True)
        return [EventRecord(batch.position.name.partition, *row) for row in rows]

    @property
    def ended(self) -> bool:
        """True once all wanted records are handed out."""
        return not self._waiting and all(position.complete for position in self) and not self._follows

    @property
    def next_offsets(self) -> tuple[int, ...]:
        """For each partition the offset behind the last record handed out, where another reader continues."""
        waiting = {each.position.name.partition for each in self._waiting}
        return tuple(
            position.handed_out if number in waiting else position.fetched
            for number, position in enumerate(self)
        )
