"""Records by column, from a task's rows to the batches of a partition.

A batch of values alone, the most frequent kind, is encoded without an object for each record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TypeVar

from strandline.producer.bulk import headers_size, rows_of
from strandline.producer.core.batch import RECORD_OVERHEAD_MAX
from strandline.records import (
    HEADER_BYTES,
    Codec,
    Headers,
    PackedRecords,
    RecordFields,
    pack,
    pack_values,
    pack_within,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """One element of each column for a record; a column is None if no record has such a thing."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Sequence[Headers] | None
    times_ms: Sequence[int] | None
    now_ms: int
    """The timestamp of records without one of their own."""

    def __len__(self) -> int:
        return len(self.values)

    def records(self) -> list[RecordFields]:
        """The same records, one by one."""
        return rows_of(self.values, self.keys, self.headers, self.times_ms, self.now_ms)

    def sizes(self) -> list[int]:
        """The most bytes that each of them takes in a batch."""
        sizes = [RECORD_OVERHEAD_MAX + len(value or b"") for value in self.values]
        if self.keys is not None:
            sizes = [size + len(key or b"") for size, key in zip(sizes, self.keys, strict=True)]
        if self.headers is not None:
            sizes = [size + headers_size(each) for size, each in zip(sizes, self.headers, strict=True)]
        return sizes

    def part(self, start: int, end: int) -> RecordColumns:
        """The records with these indexes."""
        return RecordColumns(
            self.values[start:end],
            None if self.keys is None else self.keys[start:end],
            None if self.headers is None else self.headers[start:end],
            None if self.times_ms is None else self.times_ms[start:end],
            self.now_ms,
        )

    def chosen(self, indexes: Iterable[int]) -> RecordColumns:
        """The records at these indexes, in this order."""
        at = list(indexes)
        return RecordColumns(
            _chosen(self.values, at),
            None if self.keys is None else _chosen(self.keys, at),
            None if self.headers is None else _chosen(self.headers, at),
            None if self.times_ms is None else _chosen(self.times_ms, at),
            self.now_ms,
        )

    def packed(self, codec: Codec, bytes_max: int) -> PackedRecords:
        """One batch of them, uncompressed if compression makes it too large. There has to be one record."""
        return pack_within(self._pack, codec, bytes_max)

    def _pack(self, codec: Codec) -> PackedRecords:
        if not (self.keys or self.headers or self.times_ms) and None not in self.values:
            return pack_values(self.values, self.now_ms, codec=codec)  # type: ignore[arg-type]  # none is None
        return pack(self.records(), codec=codec)


def _chosen(column: Sequence[T], at: list[int]) -> list[T]:
    return list(map(column.__getitem__, at))


def joined(parts: Sequence[RecordColumns]) -> RecordColumns:
    """The records of several parts, which have the same columns, as one."""
    if len(parts) == 1:
        return parts[0]
    last = parts[-1]
    return RecordColumns(
        list(chain.from_iterable(part.values for part in parts)),
        None if last.keys is None else list(chain.from_iterable(part.keys or () for part in parts)),
        None if last.headers is None else list(chain.from_iterable(part.headers or () for part in parts)),
        None if last.times_ms is None else list(chain.from_iterable(part.times_ms or () for part in parts)),
        last.now_ms,
    )


class Gathering:
    """Gathers the records of one partition into pieces that fit a batch; a record that does not is alone."""

    def __init__(self, bytes_max: int) -> None:
        self._room_max = bytes_max - HEADER_BYTES
        self._room = self._room_max
        self._parts: list[RecordColumns] = []

    def add(self, columns: RecordColumns) -> list[RecordColumns]:
        """Add records behind the others; returns the pieces that are full."""
        full: list[RecordColumns] = []
        ends = list(accumulate(columns.sizes()))
        start = before = 0
        while start < len(columns):
            end = bisect_right(ends, before + self._room, start)
            if end == start and self._parts:
                full.append(self.rest())
                continue
            end = max(end, start + 1)
            self._parts.append(columns.part(start, end))
            self._room -= ends[end - 1] - before
            start, before = end, ends[end - 1]
        return full

    def rest(self) -> RecordColumns:
        """Take the records that are no full piece. There has to be one."""
        piece = joined(self._parts)
        self._parts, self._room = [], self._room_max
        return piece

    def __bool__(self) -> bool:
        return bool(self._parts)
