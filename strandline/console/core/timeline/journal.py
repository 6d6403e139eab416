"""The records of events, packed: what a timeline keeps of them fits into a tenth of their size.

The records of a partition are in chunks of some hundreds, each compressed; whole chunks are dropped, the
oldest first. A record is parsed again for each explanation.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

CHUNK_RECORDS: Final = 256
LEVEL: Final = 1
OPEN_CHUNKS_MAX: Final = 8
"""Chunks that stay unpacked after a reading."""

RowT = TypeVar("RowT")


class Record(NamedTuple):
    """One record: its offset, the time at which it was written, its value."""

    offset: int
    timestamp_ms: int
    value: bytes


class Kept(NamedTuple):
    """A record that is kept, and the time at which its event is shown."""

    record: Record
    at_ms: int


class Chunk(Generic[RowT]):
    """Records in the order of offsets. `rows` are the rows that they say something about."""

    __slots__ = ("at", "data", "lengths", "newest_ms", "offsets", "oldest_ms", "rows")

    def __init__(self, kept: Sequence[Kept], rows: Iterable[RowT]) -> None:
        self.offsets = array("q", (each.record.offset for each in kept))
        self.at = array("q", (each.at_ms for each in kept))
        self.lengths = array("I", (len(each.record.value) for each in kept))
        self.data = zlib.compress(b"".join(each.record.value for each in kept), LEVEL)
        times = [each.record.timestamp_ms for each in kept]
        self.oldest_ms, self.newest_ms = min(times), max(times)
        self.rows = tuple(rows)

    def __len__(self) -> int:
        return len(self.offsets)

    def unpacked(self) -> dict[int, tuple[int, bytes]]:
        """By offset, the time at which the event is shown, and the value."""
        data = zlib.decompress(self.data)
        found, begin = {}, 0
        for offset, at_ms, length in zip(self.offsets, self.at, self.lengths, strict=True):
            found[offset] = at_ms, data[begin : begin + length]
            begin += length
        return found


class Journal(Generic[RowT]):
    """The records of one partition of a topic, from the oldest that is kept to the newest that was read."""

    def __init__(self) -> None:
        self._chunks: deque[Chunk[RowT]] = deque()
        self._newest: list[Kept] = []
        self._newest_rows: dict[RowT, None] = {}
        self._unpacked: OrderedDict[int, dict[int, tuple[int, bytes]]] = OrderedDict()
        self.count = 0

    @property
    def has_chunks(self) -> bool:
        """Whether there is something to drop."""
        return bool(self._chunks)

    @property
    def oldest_ms(self) -> int | None:
        """The time at which the oldest records were written."""
        if self._chunks:
            return self._chunks[0].oldest_ms
        return min((each.record.timestamp_ms for each in self._newest), default=None)

    def append(self, kept: Kept, rows: Iterable[RowT]) -> None:
        """Adds the newest record."""
        self._newest.append(kept)
        self._newest_rows.update(dict.fromkeys(rows))
        self.count += 1
        if len(self._newest) >= CHUNK_RECORDS:
            self._chunks.append(Chunk(self._newest, self._newest_rows))
            self._newest, self._newest_rows = [], {}

    def prepend(self, kept: Sequence[Kept], rows: Iterable[RowT]) -> None:
        """Adds records that are older than all others, in the order of offsets."""
        if kept:
            self._chunks.appendleft(Chunk(kept, rows))
            self.count += len(kept)

    def drop_oldest(self) -> Chunk[RowT] | None:
        """Drops the oldest chunk, and returns it; None if there is no whole one."""
        if not self._chunks:
            return None
        gone = self._chunks.popleft()
        self._unpacked.pop(gone.offsets[0], None)
        self.count -= len(gone)
        return gone

    def get(self, offset: int) -> tuple[int, bytes] | None:
        """When the event of an offset is shown, and the record's value; None if it is not kept."""
        if self._newest and offset >= self._newest[0].record.offset:
            here = bisect_left(self._newest, offset, key=lambda each: each.record.offset)
            if here == len(self._newest) or self._newest[here].record.offset != offset:
                return None
            return self._newest[here].at_ms, self._newest[here].record.value
        here = bisect_left(self._chunks, offset, key=lambda chunk: chunk.offsets[-1])
        if here == len(self._chunks):
            return None
        first = self._chunks[here].offsets[0]
        values = self._unpacked.get(first)
        if values is None:
            values = self._unpacked[first] = self._chunks[here].unpacked()
            if len(self._unpacked) > OPEN_CHUNKS_MAX:
                self._unpacked.popitem(last=False)
        return values.get(offset)
