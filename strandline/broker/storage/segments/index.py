"""The sparse index of one segment: maps an offset, a position or a time to a nearby batch.

One row for every `index.interval.bytes` of log: the batch's offset and position, and the largest
timestamp of all earlier batches. Rows are kept in arrays, 16 bytes each, and saved as one file
when the segment is sealed or closed: an active segment is scanned after a crash anyway, so its
index is never written record by record, and an empty partition has none.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple

import google_crc32c

NO_TIMESTAMP: Final = -1


class Row(NamedTuple):
    """A batch in a segment: its position, and its base offset relative to the segment's."""

    relative_offset: int
    position: int


class SparseIndex:
    """Rows in the order of the log; the first one is the segment's first batch."""

    __slots__ = ("_before", "_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("I")
        self._positions = array("I")
        self._before = array("q")

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, relative_offset: int, position: int, largest_timestamp_before: int) -> None:
        """Append a row; `largest_timestamp_before` is that of all earlier batches, -1 for none."""
        self._offsets.append(relative_offset)
        self._positions.append(position)
        self._before.append(largest_timestamp_before)

    @property
    def last_position(self) -> int:
        """The position of the last row's batch; -1 without rows."""
        return self._positions[-1] if self._positions else -1

    def at_offset(self, relative_offset: int) -> Row:
        """The last row at or before an offset."""
        return self._row(bisect_right(self._offsets, relative_offset) - 1)

    def at_position(self, position: int) -> Row:
        """The last row at or before a position."""
        return self._row(bisect_right(self._positions, position) - 1)

    def at_timestamp(self, timestamp_ms: int) -> Row:
        """The last row before which every record is older than the timestamp."""
        return self._row(bisect_left(self._before, timestamp_ms) - 1)

    def _row(self, index: int) -> Row:
        return Row(self._offsets[index], self._positions[index]) if index >= 0 else Row(0, 0)

    def cut(self, position: int) -> None:
        """Drop the rows at or above a position."""
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:], self._positions[keep:], self._before[keep:]

    def columns(self) -> bytes:
        """All rows, column by column, little-endian."""
        return b"".join(
            _little(column).tobytes() for column in (self._offsets, self._positions, self._before)
        )

    @classmethod
    def from_columns(cls, data: bytes, count: int) -> SparseIndex:
        """The inverse of `columns`. Raises ValueError if the size does not fit the count."""
        if len(data) != count * _ROW_BYTES:
            raise ValueError(f"{len(data)} bytes for {count} rows of {_ROW_BYTES}")
        index = cls()
        index._offsets = _from_little("I", data[: 4 * count])
        index._positions = _from_little("I", data[4 * count : 8 * count])
        index._before = _from_little("q", data[8 * count :])
        return index


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A saved index and the facts of its log; it is void if the log has another size."""

    log_size: int
    next_offset: int
    largest_timestamp: int
    created_ms: int
    index: SparseIndex

    def to_bytes(self) -> bytes:
        head = _HEAD.pack(
            _MAGIC, self.log_size, self.next_offset, self.largest_timestamp, self.created_ms, len(self.index)
        )
        body = head + self.index.columns()
        return body + _CRC.pack(google_crc32c.value(body))

    @classmethod
    def from_bytes(cls, data: bytes) -> IndexFile:
        """Raises ValueError if the file is damaged; an index can always be rebuilt from the log."""
        body, crc = data[: -_CRC.size], data[-_CRC.size :]
        if len(body) < _HEAD.size or crc != _CRC.pack(google_crc32c.value(body)):
            raise ValueError(f"index of {len(data)} bytes is damaged")
        magic, log_size, next_offset, largest_timestamp, created_ms, count = _HEAD.unpack_from(body)
        if magic != _MAGIC:
            raise ValueError(f"index begins with {magic!r} instead of {_MAGIC!r}")
        rows = SparseIndex.from_columns(body[_HEAD.size :], count)
        return cls(log_size, next_offset, largest_timestamp, created_ms, rows)


def _little(column: array[int]) -> array[int]:
    if sys.byteorder == "little":
        return column
    swapped = array(column.typecode, column)
    swapped.byteswap()
    return swapped


def _from_little(typecode: str, data: bytes) -> array[int]:
    column: array[int] = array(typecode)
    column.frombytes(data)
    return _little(column)


_MAGIC: Final = b"STIX0001"
_HEAD: Final = struct.Struct(">8sQqqqI")
_CRC: Final = struct.Struct(">I")
_ROW_BYTES: Final = 16
