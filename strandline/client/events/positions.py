"""Where a reader of an internal topic stands in each partition, and what of it waits to be handed out.

A partition has two positions: `fetched`, after what came from its leader, and `handed_out`, after what the
reader's owner has. An answer counts only if it is to the offset that is still wanted, whichever leader gave
it: so a record that two leaders are asked for in a failover is taken once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from strandline.ids import TopicPartition
from strandline.records import BatchHeader, decode_columns, validate


class EventRecord(NamedTuple):
    """One committed record. `timestamp_ms` counts from the Unix epoch."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(slots=True, eq=False)
class EventPosition:
    """One partition. `end`: read no further; None: whatever comes."""

    name: TopicPartition
    fetched: int
    handed_out: int
    end: int | None

    @property
    def complete(self) -> bool:
        return self.end is not None and self.fetched >= self.end


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One batch, not decoded yet. `first` and `end`: offsets that are wanted of it."""

    position: EventPosition
    header: BatchHeader
    data: bytes
    first: int
    end: int


class EventPositions:
    """All partitions of one topic, by their numbers. At most `buffer_bytes` wait, and one answer more."""

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
        """The topic has so many: who follows it reads new ones from their start."""
        while self._follows and len(self) < partitions:
            self._positions.append(EventPosition(TopicPartition(self._topic, len(self)), 0, 0, None))

    # --- fetching ----------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        return self._waiting_bytes < self._buffer_bytes

    def wanted(self, led: Callable[[TopicPartition], bool]) -> list[EventPosition]:
        """The partitions to ask for of those that are `led` by whoever is asked."""
        return [position for position in self if not position.complete and led(position.name)]

    def arrived(self, position: EventPosition, offset: int, records: bytes) -> bool:
        """What a leader has from `offset` on; True if it was still wanted.

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
            position.fetched = end
        return position.fetched > offset

    def skip_to(self, position: EventPosition, offset: int) -> None:
        """What lay before `offset` is no more."""
        position.fetched = max(position.fetched, offset)

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
        """True once all that was wanted is handed out."""
        return not self._waiting and all(position.complete for position in self) and not self._follows

    @property
    def next_offsets(self) -> tuple[int, ...]:
        """Of each partition, after what was handed out: where another reader goes on."""
        waiting = {each.position.name.partition for each in self._waiting}
        return tuple(
            position.handed_out if number in waiting else position.fetched
            for number, position in enumerate(self)
        )
