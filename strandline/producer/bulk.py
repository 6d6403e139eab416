"""Packs many values into as few batches as possible."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from types import NoneType
from typing import Any, Final

from strandline.client import arguments
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.errors import InvalidRequest, MessageTooLarge
from strandline.producer.core.batch import HEADER_OVERHEAD_MAX, RECORD_OVERHEAD_MAX, VALUE_OVERHEAD_MAX
from strandline.records import (
    HEADER_BYTES,
    BatchHeader,
    Codec,
    Headers,
    PackedRecords,
    RecordFields,
    decode_batch,
    pack,
    pack_values,
    pack_within,
)

RECORD_PARTS: Final = ("key", "value", "headers", "timestamp in ms")
"""What a record of `send_records` consists of."""


def too_large(what: str, limit: int) -> MessageTooLarge:
    """The error for a record or batch that no broker would accept."""
    return MessageTooLarge(f"{what} is more than fits a message: the limit is {limit} bytes", limit=limit)


def not_bytes(what: str, given: object) -> TypeError:
    """The error for a key or a value that is neither bytes nor None."""
    return TypeError(f"a record's {what} is bytes or None, not {type(given).__name__}")


def headers_size(headers: Headers) -> int:
    """An upper bound of the size of a record's headers, in bytes.

    Raises TypeError unless `headers` are pairs of a str, and bytes or None. The sender encodes headers later,
    for many callers at once, and could not name the culprit.
    """
    if not isinstance(headers, Sequence):
        raise _no_headers(headers)
    size = 0
    for header in headers:
        try:
            name, content = header
        except (TypeError, ValueError):
            raise _no_headers(header) from None
        if not isinstance(name, str):
            raise TypeError(f"a header's name is a str, not {type(name).__name__}")
        size += HEADER_OVERHEAD_MAX + (len(name) if name.isascii() else len(name.encode()))
        if content is not None:
            if not isinstance(content, bytes):
                raise not_bytes(f"header {name!r}", content)
            size += len(content)
    return size


def _no_headers(given: object) -> TypeError:
    return TypeError(f"headers are a list or a tuple of pairs (name, content), not {given!r:.100}")


def column_of(what: str, given: object) -> Sequence[Any]:
    """A list or a tuple of what was given as one value of each record. Raises InvalidRequest unless that is a
    sequence."""
    if isinstance(given, list | tuple):
        return given
    if isinstance(given, str | bytes | bytearray | memoryview) or not isinstance(given, Sequence):
        raise InvalidRequest(f"{what} = {given!r:.100}: give a list or a tuple, with one for each record")
    return list(given)


def timestamp_of(given: object) -> int:
    """A timestamp in milliseconds since the Unix epoch; -1: none. Raises InvalidRequest."""
    return arguments.whole("timestamp", given, -1, arguments.INT64_MAX)


def one_batch(records: Sequence[RecordFields], *, bytes_max: int, codec: Codec) -> PackedRecords:
    """Pack all records into one batch, uncompressed if compression makes it too large.

    Raises InvalidRequest if there are none, or for anything but quadruples, MessageTooLarge, TypeError.
    """
    for record in column_of("records", records):
        if not (isinstance(record, tuple | list) and len(record) == len(RECORD_PARTS)):
            raise InvalidRequest(f"record = {record!r:.100}: give ({', '.join(RECORD_PARTS)})")
    if not records:
        raise InvalidRequest("records = []: give at least one, a batch is never empty")
    _lengths(records)
    packed = pack_within(lambda codec: pack(records, codec=codec), codec, bytes_max)
    if packed.size > bytes_max:
        raise too_large(f"batch of {packed.size} bytes", bytes_max)
    return packed


def rows_of(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Sequence[Headers] | None,
    timestamps_ms: Sequence[int] | None,
    now_ms: int,
) -> list[RecordFields]:
    """The records of these columns; those without a timestamp get `now_ms`.

    Raises InvalidRequest unless a column has one element for each value.
    """
    for what, column in (("keys", keys), ("headers", headers), ("timestamps_ms", timestamps_ms)):
        if column is not None and len(column_of(what, column)) != len(values):
            raise InvalidRequest(f"{len(values)} values were given with {len(column)} {what}")
    columns = keys or repeat(None), values, headers or repeat(()), timestamps_ms or repeat(now_ms)
    return list(zip(*columns, strict=False))


def _lengths(records: Sequence[RecordFields]) -> list[int]:
    """The bytes of each record's key, value and headers, at most. Raises TypeError, and InvalidRequest for a
    timestamp."""
    lengths: list[int] = []
    checked = 0
    for key, value, headers, timestamp_ms in records:
        if not (key is None or isinstance(key, bytes)):
            raise not_bytes("key", key)
        if not (value is None or isinstance(value, bytes)):
            raise not_bytes("value", value)
        if timestamp_ms is not checked:
            checked = timestamp_of(timestamp_ms)
        length = len(key or b"") + len(value or b"")
        lengths.append(length if headers == () else length + headers_size(headers))
    return lengths


def divided(packed: PackedRecords, size_max: int, codec: Codec) -> list[PackedRecords]:
    """The records of a batch of several in two batches or more, each of `size_max` bytes or one record."""
    batch = packed.seal()
    records = [
        (record.key, record.value, record.headers, record.timestamp)
        for record in decode_batch(batch, BatchHeader.parse(batch))
    ]
    pieces = [packed]
    while len(pieces) < 2:
        pieces = [*Pieces(0, size_max, RECORDS_BYTES_MAX, codec).of_records(records)]
        size_max //= 2
    return pieces


@dataclass(frozen=True, slots=True)
class Pieces:
    """Cuts records into batches of at most `size_max` bytes. A larger record, up to `bytes_max`, gets a batch
    of its own. Values without anything else have the timestamp `now_ms`."""

    now_ms: int
    size_max: int
    bytes_max: int
    codec: Codec

    def of_values(self, values: Sequence[bytes | None]) -> Iterator[PackedRecords]:
        """Batches of values without keys. Raises MessageTooLarge and TypeError before the first of them."""
        kinds = set(map(type, values))
        for value in values if not kinds <= {bytes, NoneType} else ():
            if not (value is None or isinstance(value, bytes)):
                raise not_bytes("value", value)
        some_none = NoneType in kinds
        lengths = [0 if v is None else len(v) for v in values] if some_none else list(map(len, values))  # type: ignore[arg-type]
        cuts = self._cuts(lengths, VALUE_OVERHEAD_MAX)
        return (self._pack_piece(values[start:end], some_none=some_none) for start, end in cuts)

    def _pack_piece(self, piece: Sequence[bytes | None], *, some_none: bool) -> PackedRecords:
        if some_none and None in piece:
            return self._pack([(None, value, (), self.now_ms) for value in piece])
        return self._pack_values(piece)  # type: ignore[arg-type]  # none is None

    def of_records(self, records: Sequence[RecordFields]) -> Iterator[PackedRecords]:
        """Batches of whole records, all of which are checked by now. Raises MessageTooLarge, TypeError,
        InvalidRequest."""
        cuts = self._cuts(_lengths(records), RECORD_OVERHEAD_MAX)
        return (self._pack(records[start:end]) for start, end in cuts)

    def _pack(self, records: Sequence[RecordFields]) -> PackedRecords:
        return pack_within(lambda codec: pack(records, codec=codec), self.codec, self.bytes_max)

    def _pack_values(self, values: Sequence[bytes]) -> PackedRecords:
        return pack_within(
            lambda codec: pack_values(values, self.now_ms, codec=codec), self.codec, self.bytes_max
        )

    def _cuts(self, lengths: Sequence[int], overhead: int) -> list[tuple[int, int]]:
        """The begin and end index of each batch."""
        if not lengths:
            return []
        longest = max(lengths) + overhead
        if HEADER_BYTES + longest > self.bytes_max:
            raise too_large(f"record of {longest} bytes", self.bytes_max)
        room = self.size_max - HEADER_BYTES
        if longest == min(lengths) + overhead:
            step = max(1, room // longest)
            return [(start, min(start + step, len(lengths))) for start in range(0, len(lengths), step)]
        ends = list(accumulate(length + overhead for length in lengths))
        cuts: list[tuple[int, int]] = []
        start = before = 0
        while start < len(lengths):
            end = max(start + 1, bisect_right(ends, before + room, start))
            cuts.append((start, end))
            start, before = end, ends[end - 1]
        return cuts
