"""Encodes records to batches.

The cost of a record in plain Python is the number of executed bytecodes, so the work is organized
in columns: tables of precomputed bytes between the values, and one `join`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import google_crc32c

from strandline.ids import NO_EPOCH, NO_PRODUCER
from strandline.records.compression import Codec, compress
from strandline.records.header import AFTER_CRC, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC, TRANSACTIONAL
from strandline.records.varint import VARINTS, VarintCache, decode_varint, encode_varint

Headers = Sequence[tuple[str, bytes | None]]
RecordFields = tuple[bytes | None, bytes | None, Headers, int]
"""key, value, headers, timestamp in milliseconds."""

NO_SEQUENCE: Final = -1

_NULL: Final = encode_varint(-1)
_NO_HEADERS: Final = b"\x00"
_LENGTHS_REMEMBERED: Final = 16
_EQUAL_COUNT_MIN: Final = 8
"""Below this count, decoding record by record is as fast."""
_GAP_BYTES_MAX: Final = 16
REMEMBERED_MAX: Final = VarintCache.REMEMBERED_MAX
"""The number of records of a batch beyond which computed bytes are not cached."""


@dataclass(frozen=True, slots=True)
class PackedRecords:
    """A batch's records, encoded and compressed, without the producer's id and sequence.

    A producer packs early and seals late: after a new producer id, the same records are sealed
    again without encoding them again.
    """

    body: bytes
    attributes: int
    record_count: int
    base_timestamp: int
    max_timestamp: int

    @property
    def size(self) -> int:
        """Size of the sealed batch in bytes."""
        return HEADER_BYTES + len(self.body)

    def seal(
        self,
        *,
        producer_id: int = NO_PRODUCER,
        producer_epoch: int = -1,
        base_sequence: int = NO_SEQUENCE,
        base_offset: int = 0,
        leader_epoch: int = NO_EPOCH,
        transactional: bool = False,
    ) -> bytes:
        """The whole batch with its CRC."""
        covered = AFTER_CRC.pack(
            self.attributes | TRANSACTIONAL if transactional else self.attributes,
            self.record_count - 1,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.record_count,
        )
        crc = google_crc32c.extend(google_crc32c.value(covered), self.body)
        length = self.size - LENGTH_PREFIX_BYTES
        return b"".join(
            (
                base_offset.to_bytes(8, "big", signed=True),
                length.to_bytes(4, "big"),
                leader_epoch.to_bytes(4, "big", signed=True),
                MAGIC.to_bytes(1, "big"),
                crc.to_bytes(4, "big"),
                covered,
                self.body,
            )
        )


def encode_batch(
    records: Iterable[RecordFields],
    *,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> bytes:
    """One batch of (key, value, headers, timestamp) records. Raises ValueError if there are none."""
    return pack(records, codec=codec).seal(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def encode_values(
    values: Sequence[bytes],
    timestamp_ms: int,
    *,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> bytes:
    """One batch of values without keys and headers, all with the same timestamp, for bulk producers."""
    return pack_values(values, timestamp_ms, codec=codec).seal(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def pack(records: Iterable[RecordFields], *, codec: Codec = Codec.NONE) -> PackedRecords:
    """Encode records in order; their offsets count from 0. Raises ValueError if there are none."""
    parts: list[bytes] = []
    add = parts.extend
    varints = VARINTS
    base = previous = latest = None
    lead, count = b"", 0
    names = _OneHeader()
    for key, value, headers, timestamp in records:
        if timestamp != previous:
            if base is None or latest is None:
                base = latest = timestamp
            elif timestamp > latest:
                latest = timestamp
            lead, previous = b"\x00" + varints[timestamp - base], timestamp
        number = varints[count]
        count += 1
        if len(headers) == 1 and key is not None and value is not None:
            ((name, content),) = headers
            if content is not None:
                named = names[name]
                keyed, size, measured = varints[len(key)], varints[len(value)], varints[len(content)]
                whole = varints[
                    len(lead) + len(number) + len(keyed) + len(key) + len(size) + len(value)
                    + len(named) + len(measured) + len(content)
                ]  # fmt: skip
                add((whole, lead, number, keyed, key, size, value, named, measured, content))
                continue
        if value is None or headers:
            rest = b"".join((_nullable(key), _nullable(value), _encode_headers(headers)))
            add((varints[len(lead) + len(number) + len(rest)], lead, number, rest))
            continue
        length = len(value)
        size = varints[length]
        if key is None:
            whole = varints[len(lead) + len(number) + len(size) + length + 2]
            add((whole, lead, number, _NULL, size, value, _NO_HEADERS))
        else:
            keyed = varints[len(key)]
            whole = varints[len(lead) + len(number) + len(keyed) + len(key) + len(size) + length + 1]
            add((whole, lead, number, keyed, key, size, value, _NO_HEADERS))
    if base is None or latest is None:
        raise ValueError("a batch has at least one record")
    return PackedRecords(compress(codec, b"".join(parts)), codec, count, base, latest)


def pack_values(values: Sequence[bytes], timestamp_ms: int, *, codec: Codec = Codec.NONE) -> PackedRecords:
    """Encode values without keys and headers, all with the same timestamp. Raises ValueError if
    there are none."""
    count = len(values)
    if not count:
        raise ValueError("a batch has at least one record")
    lengths = set(map(len, values))
    body = _join_equal(values, lengths.pop()) if len(lengths) == 1 else _join_varied(values)
    return PackedRecords(compress(codec, body), codec, count, timestamp_ms, timestamp_ms)


def pack_within(pack_as: Callable[[Codec], PackedRecords], codec: Codec, bytes_max: int) -> PackedRecords:
    """Records packed with this codec, or uncompressed if compression makes the batch too large."""
    packed = pack_as(codec)
    return pack_as(Codec.NONE) if packed.size > bytes_max and codec is not Codec.NONE else packed


def _nullable(data: bytes | None) -> bytes:
    """Length and bytes; null has the length -1."""
    return _NULL if data is None else VARINTS[len(data)] + data


def _encode_headers(headers: Headers) -> bytes:
    if not headers:
        return _NO_HEADERS
    parts = [VARINTS[len(headers)]]
    for name, value in headers:
        parts += (_nullable(name.encode()), _nullable(value))
    return b"".join(parts)


class _OneHeader(dict[str, bytes]):
    """name → the bytes of a record's only header up to the length of its value."""

    __slots__ = ()

    def __missing__(self, name: str) -> bytes:
        head = self[name] = VARINTS[1] + _nullable(name.encode())
        return head


# --- values only ----------------------------------------------------------------------------
# Between two values are: the header count of the previous record, then length, attributes,
# timestamp delta (0), offset delta, key length (-1) and value length of the next record.


def _record_size(number: bytes, value_length: int) -> int:
    """The size of a record without key and headers, excluding its own length field."""
    return 4 + len(number) + len(VARINTS[value_length]) + value_length


_OFFSET_DELTAS: Final[list[bytes]] = []


def offset_deltas(end: int, start: int = 0) -> Sequence[bytes]:
    """The numbers from `start` to below `end` as varints: offset deltas of a batch, cached up to a limit."""
    known = _OFFSET_DELTAS
    for index in range(len(known), min(end, REMEMBERED_MAX)):
        known.append(encode_varint(index))
    if end <= REMEMBERED_MAX:
        return known[start:end]
    return known[start:] + [encode_varint(index) for index in range(max(start, REMEMBERED_MAX), end)]


class _Gaps:
    """The bytes between values of equal length, cached up to a limit."""

    __slots__ = ("_gaps", "_value_length")

    def __init__(self, value_length: int) -> None:
        self._value_length = value_length
        self._gaps: list[bytes] = []

    def first(self, count: int) -> list[bytes]:
        gaps = self._gaps
        gaps.extend(self._made(len(gaps), min(count, REMEMBERED_MAX)))
        return gaps[:count] if count <= REMEMBERED_MAX else [*gaps, *self._made(REMEMBERED_MAX, count)]

    def _made(self, start: int, end: int) -> Iterator[bytes]:
        length = VARINTS[self._value_length]
        for index in range(start, end):
            number = encode_varint(index)
            size = VARINTS[_record_size(number, self._value_length)]
            before = _NO_HEADERS if index else b""
            yield before + size + b"\x00\x00" + number + _NULL + length


@lru_cache(maxsize=_LENGTHS_REMEMBERED)
def gaps_between(value_length: int) -> _Gaps:
    """The gaps for a value length; the few lengths in use are cached."""
    return _Gaps(value_length)


def _join_equal(values: Sequence[bytes], value_length: int) -> bytes:
    count = len(values)
    parts = [_NO_HEADERS] * (2 * count + 1)
    parts[0:-1:2] = gaps_between(value_length).first(count)
    parts[1::2] = values
    return b"".join(parts)


def split_equal(body: bytes, count: int) -> list[bytes] | None:
    """The values of a body that equals, byte for byte, the output of `pack_values` for values of
    equal length.

    None for any other body. Cutting such values out and joining them again to compare is four times
    faster than decoding record by record, and most batches of bulk producers are like this.
    """
    length = _equal_length(body, count)
    if length is None:
        return None
    values: list[bytes] = []
    at = 0
    while len(values) < count:
        number = VARINTS[len(values)]
        end = min(1 << (7 * len(number) - 1), count)
        gap = len(VARINTS[_record_size(number, length)]) + 3 + len(number) + len(VARINTS[length])
        stride = gap + length + 1
        size = (end - len(values)) * stride
        values += [body[start : start + length] for start in range(at + gap, at + size, stride)]
        at += size
    return values if at == len(body) and _join_equal(values, length) == body else None


def _equal_length(body: bytes, count: int) -> int | None:
    """The value length of the first record, if the body could be `count` values of that length."""
    if count < _EQUAL_COUNT_MIN:
        return None
    try:
        _, at = decode_varint(body, 0)
        if body[at : at + 4] != b"\x00\x00\x00" + _NULL:
            return None
        length, _ = decode_varint(body, at + 4)
    except (IndexError, ValueError):
        return None
    fits = length >= 0 and count * length < len(body) <= count * (length + _GAP_BYTES_MAX)
    return length if fits else None


class _Heads(dict[int, bytes]):
    """value length → the gap up to the offset delta, for offset deltas of one width."""

    __slots__ = ("_number",)

    def __init__(self, number: bytes) -> None:
        self._number = number

    def __missing__(self, value_length: int) -> bytes:
        size = VARINTS[_record_size(self._number, value_length)]
        head = self[value_length] = _NO_HEADERS + size + b"\x00\x00"
        return head


class _Tails(dict[int, bytes]):
    """value length → the gap from the key length on."""

    __slots__ = ()

    def __missing__(self, value_length: int) -> bytes:
        tail = self[value_length] = _NULL + VARINTS[value_length]
        return tail


def _join_varied(values: Sequence[bytes]) -> bytes:
    count = len(values)
    lengths = list(map(len, values))
    heads: list[bytes] = []
    while len(heads) < count:
        start = len(heads)
        width = len(VARINTS[start])
        end = 1 << (7 * width - 1)  # the first number that needs another byte
        table = _Heads(VARINTS[start])
        heads += map(table.__getitem__, lengths[start:end])
    heads[0] = heads[0][1:]
    parts = [_NO_HEADERS] * (4 * count + 1)
    parts[0:-1:4] = heads
    parts[1::4] = offset_deltas(count)
    parts[2::4] = map(_Tails().__getitem__, lengths)
    parts[3::4] = values
    return b"".join(parts)
