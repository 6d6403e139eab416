"""Scans a batch's records without creating record objects, in memory bounded by the size of the batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from strandline.config.limits import KIB, RECORDS_BYTES_MAX
from strandline.errors import CorruptMessage, InvalidRecord, UnsupportedCompression
from strandline.records.compression import Codec, decompress
from strandline.records.decode import body_of
from strandline.records.encode import offset_deltas
from strandline.records.header import HEADER_BYTES, BatchHeader, Bytes
from strandline.records.varint import LONG_MAX, LONG_MIN, decode_varint

COMPRESSION_RATIO_MAX: Final = 32
"""A broker accepts at most this number of records for each byte of a batch: with any codec a real
record, which has its own offset, takes at least a quarter of a byte."""

BROKER_DECOMPRESSED_BYTES_MAX: Final = COMPRESSION_RATIO_MAX * RECORDS_BYTES_MAX
"""The most bytes that a broker decompresses of one batch, where it reads records at all."""

RECORDS_LOOKED_AT_MAX: Final = 4
HEADERS_LOOKED_AT_MAX: Final = 64
COMPRESSED_BYTES_LOOKED_AT_MAX: Final = 4 * KIB
BYTES_LOOKED_AT_MAX: Final = 16 * KIB
"""How much of a batch is read to find a header without a key."""

_NULL: Final = 1
"""The length -1 in zigzag encoding."""


class Glance(NamedTuple):
    """The scanned facts of a record: its offset, its timestamp, and whether it has a key."""

    offset: int
    timestamp: int
    keyed: bool


def glance(
    records: Bytes, header: BatchHeader, *, bytes_max: int = BROKER_DECOMPRESSED_BYTES_MAX
) -> Iterator[Glance]:
    """The records of one batch, one after the other. Record headers are skipped.

    Raises CorruptMessage if a record contradicts its lengths or its timestamp does not fit 64 bits, or the
    batch decompresses to more than `bytes_max`; UnsupportedCompression.
    """
    body = body_of(records, header, bytes_max=bytes_max)
    try:
        yield from _glance(body, header)
    except (IndexError, ValueError) as error:
        raise CorruptMessage(f"batch at offset {header.base_offset} is malformed: {error}") from None


def _glance(body: bytes, header: BatchHeader) -> Iterator[Glance]:
    """Raises IndexError or ValueError. Varints of one byte are decoded in place: a call doubles the time."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    same_timestamp = header.max_timestamp if header.is_log_append_time else None
    at = 0
    for _ in range(header.record_count):
        if (raw := body[at]) < 0x80:
            length, at = raw >> 1 ^ -(raw & 1), at + 1
        else:
            length, at = decode_varint(body, at)
        end = at + length
        if (raw := body[at + 1]) < 0x80:
            timestamp, at = base_timestamp + (raw >> 1 ^ -(raw & 1)), at + 2
        else:
            delta, at = decode_varint(body, at + 1)
            timestamp = base_timestamp + delta
        if not LONG_MIN <= timestamp <= LONG_MAX:
            raise ValueError(f"a timestamp of {timestamp} ms")
        if (raw := body[at]) < 0x80:
            offset, at = base_offset + (raw >> 1 ^ -(raw & 1)), at + 1
        else:
            delta, at = decode_varint(body, at)
            offset = base_offset + delta
        keyed, at = _past(body, at)
        _, at = _past(body, at)
        if at >= end or (body[at] == 0 and at + 1 != end):
            raise ValueError(f"a record that should end at byte {end} of its batch does not")
        yield Glance(offset, timestamp if same_timestamp is None else same_timestamp, keyed)
        at = end
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes are left over after the last record")


def first_without_key(
    records: Bytes, header: BatchHeader, *, bytes_max: int = BROKER_DECOMPRESSED_BYTES_MAX
) -> int | None:
    """The index of the first record without a key, or None.

    Raises as `glance`, and InvalidRecord if a timestamp does not fit 64 bits, or the records' offsets do
    not count from the batch's first one.
    """
    body = body_of(records, header, bytes_max=bytes_max)
    try:
        return _first_without_key(body, header)
    except (IndexError, ValueError) as error:
        raise CorruptMessage(f"batch at offset {header.base_offset} is malformed: {error}") from None


def _first_without_key(body: bytes, header: BatchHeader) -> int | None:
    """Runs on the event loop for batches of compacted topics, so it avoids calls where possible."""
    at, lead = 0, b"\x00\x00"
    for index, number in enumerate(offset_deltas(header.record_count)):
        if (raw := body[at]) < 0x80 and not raw & 1:
            end = at + 1 + (raw >> 1)
            at += 1
        else:
            length, at = decode_varint(body, at)
            end = at + length
        expected = lead + number  # most records have the previous record's timestamp, and the next offset
        if body.startswith(expected, at):
            at += len(expected)
        else:
            delta, after = decode_varint(body, at + 1)
            lead, timestamp = body[at:after], header.base_timestamp + delta
            if not LONG_MIN <= timestamp <= LONG_MAX:
                raise InvalidRecord(f"record {index} of the batch has a timestamp of {timestamp} ms")
            delta, at = decode_varint(body, after)
            if delta != index:
                raise InvalidRecord(
                    f"record {index} of the batch has offset delta {delta}: they have to count from 0 to "
                    f"{header.last_offset_delta}"
                )
        if (raw := body[at]) < 0x80 and not raw & 1:
            at += 1 + (raw >> 1)
        else:
            keyed, at = _past(body, at)
            if not keyed:
                return index
        if (raw := body[at]) < 0x80 and not raw & 1:
            at += 1 + (raw >> 1)
        else:
            _, at = _past(body, at)
        if at >= end or (body[at] == 0 and at + 1 != end):
            raise ValueError(f"a record that should end at byte {end} of its batch does not")
        at = end
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes are left over after the last record")
    return None


def has_header_without_key(records: Bytes, header: BatchHeader) -> bool:
    """Whether one of the first records of the batch has a header with a null key, which Java's readers cannot
    pass.

    To read each of many records takes 13 times as long as the other checks of a batch. A compressed batch is
    read if it is small. False for records that cannot be decoded: they are opaque to a broker. Raises
    UnsupportedCompression for snappy that is none: no reader could pass it.
    """
    codec, start = header.codec, header.position + HEADER_BYTES
    if not header.record_count or (codec is not Codec.NONE and header.size > COMPRESSED_BYTES_LOOKED_AT_MAX):
        return False
    body = bytes(records[start : min(header.end, start + BYTES_LOOKED_AT_MAX)])
    try:
        body = decompress(codec, body, bytes_max=BYTES_LOOKED_AT_MAX)
        return _has_header_without_key(body, min(header.record_count, RECORDS_LOOKED_AT_MAX))
    except CorruptMessage as error:
        if error.limit is None:
            raise UnsupportedCompression(error.message) from None
        return False  # it may be too large only
    except (IndexError, ValueError):
        return False


def _has_header_without_key(body: bytes, records: int) -> bool:
    end = 0
    for _ in range(records):
        length, at = decode_varint(body, end)
        end = at + length
        for skipped in (1, 0):  # attributes and time; offset
            _, at = decode_varint(body, at + skipped)
        for _ in range(2):  # key, value
            _, at = _past(body, at)
        count, at = decode_varint(body, at)
        for _ in range(min(count, HEADERS_LOOKED_AT_MAX)):
            keyed, at = _past(body, at)
            if not keyed:
                return True
            _, at = _past(body, at)
    return False


def _past(body: bytes, at: int) -> tuple[bool, int]:
    """Whether there is a key or a value, and the position after it."""
    if (raw := body[at]) < 0x80:
        if raw == _NULL:
            return False, at + 1
        length, at = raw >> 1 ^ -(raw & 1), at + 1
    else:
        length, at = decode_varint(body, at)
    if length < 0:
        if length == -1:
            return False, at
        raise ValueError(f"a length of {length} bytes")
    return True, at + length
