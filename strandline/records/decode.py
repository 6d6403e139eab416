"""Decodes batches to records."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, repeat
from operator import lt
from typing import Final, NamedTuple

from strandline.config.limits import DECOMPRESSED_BYTES_MAX
from strandline.errors import CorruptMessage
from strandline.records.compression import Codec, decompress
from strandline.records.encode import offset_deltas, split_equal
from strandline.records.header import HEADER_BYTES, BatchHeader, Bytes, iterate
from strandline.records.varint import LONG_MAX, LONG_MIN, decode_varint

RecordHeaders = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One decoded record. `timestamp` is in milliseconds since the Unix epoch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders


class Columns(NamedTuple):
    """One batch's records by column, all of the same length; for columnar consumers (Arrow)."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[RecordHeaders]

    def extend(self, more: Columns) -> None:
        """Append these records, in place."""
        self.offsets.extend(more.offsets)
        self.timestamps.extend(more.timestamps)
        self.keys.extend(more.keys)
        self.values.extend(more.values)
        self.headers.extend(more.headers)


PART_RECORDS: Final = 10_000
"""Records that `decode_in_parts` makes at once."""
RECORD_BYTES_MIN: Final = 7
"""The smallest record: six lengths and numbers of a byte each, and its attributes."""
_FIRST_LEAD: Final = b"\x00\x00"
"""The attributes, all of whose bits are unused, and the timestamp delta 0 of the first record."""
_NULL: Final = 1
"""The length -1 in zigzag encoding."""


def decode(records: Bytes, *, from_offset: int = 0) -> list[Record]:
    """All records at or above an offset, without control batches.

    Raises CorruptMessage if the bytes are not whole, well-formed batches.
    """
    decoded: list[Record] = []
    for header in iterate(records):
        if header.next_offset > from_offset and not header.is_control:
            decoded += decode_batch(records, header, from_offset=from_offset)
    return decoded


def decode_lazily(records: Bytes, *, from_offset: int = 0) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """As `decode`, batch by batch: each batch is decompressed and decoded on demand."""
    for header in iterate(records):
        if header.next_offset > from_offset and not header.is_control:
            yield header, decode_batch(records, header, from_offset=from_offset)


def decode_batch(records: Bytes, header: BatchHeader, *, from_offset: int = 0) -> list[Record]:
    """The records of one batch at or above an offset. Raises CorruptMessage."""
    decoded = _records(decode_columns(records, header))
    if header.base_offset < from_offset:
        return [record for record in decoded if record.offset >= from_offset]
    return decoded


def decode_columns(
    records: Bytes, header: BatchHeader, *, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Columns:
    """All records of one batch by column. Raises CorruptMessage, also for compressed records that have more
    than `bytes_max` bytes, and UnsupportedCompression."""
    return columns_of(body_of(records, header, bytes_max=bytes_max), header)


def body_of(records: Bytes, header: BatchHeader, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The records of one batch as bytes, decompressed. Raises as `decode_columns`."""
    body = bytes(records[header.position + HEADER_BYTES : header.end])
    codec = header.codec
    return body if codec is Codec.NONE else decompress(codec, body, bytes_max=bytes_max)


def decode_in_parts(
    records: Bytes, header: BatchHeader, *, part: int = PART_RECORDS
) -> Iterator[list[Record]]:
    """The records of one batch, at most `part` at a time: the decompressed batch bounds the memory, not the
    number of its records and headers. Headers are checked, and left out. Raises as `decode_columns`."""
    body = body_of(records, header)
    _check_count(body, header)
    at, last = 0, header.base_offset - 1
    try:
        for start in range(0, header.record_count, part):
            columns = _usual_columns(header, start, min(part, header.record_count - start))
            at = _read_each(body, header, columns, at, start, keep_headers=False)
            if columns.offsets[0] <= last:
                raise ValueError("the offsets of its records do not ascend")
            last = columns.offsets[-1]
            yield _records(_stamped(columns, header))
        _check_end(body, at)
    except (IndexError, ValueError) as error:
        raise CorruptMessage(f"batch at offset {header.base_offset} is malformed: {error}") from None


def columns_of(body: bytes, header: BatchHeader) -> Columns:
    """The records in `body_of` by column. Raises CorruptMessage."""
    _check_count(body, header)
    try:
        return _stamped(_read_columns(body, header), header)
    except (IndexError, ValueError) as error:
        raise CorruptMessage(f"batch at offset {header.base_offset} is malformed: {error}") from None


def _check_count(body: bytes, header: BatchHeader) -> None:
    if not 0 <= header.record_count <= len(body) // RECORD_BYTES_MIN:
        raise CorruptMessage(
            f"batch at offset {header.base_offset} claims {header.record_count} records in {len(body)} bytes"
        )
    if header.record_count > header.last_offset_delta + 1:
        raise CorruptMessage(
            f"batch at offset {header.base_offset} claims {header.record_count} records, "
            f"its last offset delta is {header.last_offset_delta}"
        )


def _stamped(columns: Columns, header: BatchHeader) -> Columns:
    """With the broker's time in place of the records' own, if the topic has that."""
    if header.is_log_append_time:
        return columns._replace(timestamps=[header.max_timestamp] * len(columns.offsets))
    return columns


def _records(columns: Columns) -> list[Record]:
    return list(map(tuple.__new__, repeat(Record), zip(*columns, strict=True)))


def _usual_columns(header: BatchHeader, start: int, count: int) -> Columns:
    """What nearly all records have, from number `start` of the batch on; exceptions overwrite it."""
    first = header.base_offset + start
    return Columns(list(range(first, first + count)), [], [None] * count, [], [()] * count)


def _read_columns(body: bytes, header: BatchHeader) -> Columns:
    """Raises IndexError or ValueError if the bytes contradict the header."""
    count = header.record_count
    columns = _usual_columns(header, 0, count)
    values = split_equal(body, count)
    if values is None:
        _check_end(body, _read_each(body, header, columns))
    else:
        columns.timestamps.extend(repeat(header.base_timestamp, count))
        columns.values.extend(values)
    return columns


def _check_end(body: bytes, at: int) -> None:
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes are left over after the last record")


def _read_each(
    body: bytes, header: BatchHeader, columns: Columns, at: int = 0, first: int = 0, keep_headers: bool = True
) -> int:
    """Decode a record for each place of `columns`, from number `first` on, which begins at byte `at`. Returns
    where the last one ends. Varints of one and two bytes are decoded in place: calls would double the time.

    If a length is negative or exceeds the batch, the record does not end where it claims; the check at its
    end detects that.
    """
    keys, add_timestamp, add_value = columns.keys, columns.timestamps.append, columns.values.append
    lead, timestamp, gaps = _FIRST_LEAD, header.base_timestamp, False
    alike: _Alike | None = None
    for index, number in enumerate(offset_deltas(first + len(columns.offsets), first)):
        if (raw := body[at]) < 0x80:
            at += 1
        elif (high := body[at + 1]) < 0x80:
            raw, at = raw + (high << 7) - 0x80, at + 2
        else:
            raw, at = _longer(body, at)
        end = at + (raw >> 1 ^ -(raw & 1))
        # Most records have the previous record's timestamp, and the next offset.
        expected = lead + number
        if body.startswith(expected, at):
            at += len(expected)
        else:
            delta, after = decode_varint(body, at + 1)
            lead, timestamp = body[at:after], header.base_timestamp + delta
            if not LONG_MIN <= timestamp <= LONG_MAX:
                raise ValueError(f"a timestamp of {timestamp} ms")
            delta, at = decode_varint(body, after)
            columns.offsets[index] = header.base_offset + delta
            gaps = gaps or delta != index
        add_timestamp(timestamp)
        if (raw := body[at]) < 0x80:
            at += 1
        else:
            raw, at = _longer(body, at)
        if raw != _NULL:
            stop = at + (raw >> 1 ^ -(raw & 1))
            keys[index] = body[at:stop]
            at = stop
        if (raw := body[at]) < 0x80:
            at += 1
        elif (high := body[at + 1]) < 0x80:
            raw, at = raw + (high << 7) - 0x80, at + 2
        else:
            raw, at = _longer(body, at)
        if raw == _NULL:
            add_value(None)
        else:
            stop = at + (raw >> 1 ^ -(raw & 1))
            add_value(body[at:stop])
            at = stop
        if not body[at]:
            at += 1
        elif alike is not None and body.startswith(alike.lead, at):
            start = at + len(alike.lead)
            at = start + alike.length
            columns.headers[index] = ((alike.name, body[start:at]),)
        else:
            columns.headers[index], after = _read_headers(body, at, keep_headers)
            alike, at = _alike(columns.headers[index], body[at:after]), after
        if at != end:
            raise ValueError(f"a record that should end at byte {end} of its batch ends at {at}")
    if gaps:
        _check_offsets(columns.offsets, header)
    return at


def _check_offsets(offsets: list[int], header: BatchHeader) -> None:
    """A reader would continue at an offset outside the batch. Raises ValueError."""
    if not all(map(lt, offsets, islice(offsets, 1, None))):
        raise ValueError("the offsets of its records do not ascend")
    if offsets[0] < header.base_offset or offsets[-1] > header.last_offset:
        raise ValueError(
            f"its records have offsets {offsets[0]} to {offsets[-1]}, "
            f"it has {header.base_offset} to {header.last_offset}"
        )


def _longer(body: bytes, at: int) -> tuple[int, int]:
    """A varint of any length, still zigzag-encoded, and the position after it."""
    number, end = decode_varint(body, at)
    return (number << 1 if number >= 0 else (-number << 1) - 1), end


class _Alike(NamedTuple):
    """The one header of a record. Most records of a producer have the same, with a value of this length."""

    lead: bytes
    """All of its bytes before the value."""
    name: str
    length: int


def _alike(headers: RecordHeaders, data: bytes) -> _Alike | None:
    """None unless there is one header, with a value. `data` are its bytes."""
    if len(headers) != 1:
        return None
    ((name, value),) = headers
    return None if value is None else _Alike(data[: len(data) - len(value)], name, len(value))


def _read_headers(body: bytes, at: int, keep: bool) -> tuple[RecordHeaders, int]:
    count, at = decode_varint(body, at)
    if count < 0:
        raise ValueError(f"{count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, at = decode_varint(body, at)
        if length < 0:
            raise ValueError(f"a header key of {length} bytes")
        name = body[at : at + length].decode()
        at += length
        length, at = decode_varint(body, at)
        if length < -1:
            raise ValueError(f"a header value of {length} bytes")
        value = None if length < 0 else body[at : at + length]
        at += max(length, 0)
        if keep:
            headers.append((name, value))
    return tuple(headers), at
