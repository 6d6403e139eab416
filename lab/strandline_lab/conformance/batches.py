"""Makes record batches of the format that KIP-98 introduced, right ones and broken ones, and describes those
that are read. It knows nothing of strandline's own codec."""

from __future__ import annotations

import gzip
import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import google_crc32c

from strandline_lab.conformance.codec import uvarint

CODECS: Final[Mapping[str, int]] = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_MARKER_TAIL: Final = struct.Struct(">iB")
_CRC_FROM: Final = 21
_LENGTH_FROM: Final = 12


def crc32c(data: bytes) -> int:
    """Castagnoli's CRC, as RFC 3720 has it."""
    checksum: int = google_crc32c.value(data)
    return checksum


def varint(value: int) -> bytes:
    """A signed varint: zigzag, then seven bits a byte."""
    return uvarint(value << 1 ^ value >> 63)


@dataclass(frozen=True, slots=True)
class Record:
    """A record. A header's key may be null, which is not allowed."""

    key: bytes | None = None
    value: bytes | None = b"v"
    headers: Sequence[tuple[bytes | None, bytes | None]] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as a producer sends it. `at_ms` is relative to the start of the run; the last group of fields
    makes it wrong. `producer` is a number, or the name under which a case keeps one."""

    records: Sequence[Record] = (Record(),)
    codec: str = "none"
    at_ms: int = 0
    producer: int | str = -1
    epoch: int = -1
    sequence: int = -1
    attributes: int = 0
    base_offset: int = 0
    magic: int = 2
    crc_off_by: int = 0
    count_off_by: int = 0
    last_offset_off_by: int = 0
    max_time_off_by: int = 0
    cut: int = 0
    trailing: bytes = b""

    def with_producer(self, number: int) -> Batch:
        return replace(self, producer=number)

    def encoded(self, start_ms: int) -> bytes:
        """The bytes of the batch in a run that began at `start_ms`, milliseconds since 1970."""
        assert isinstance(self.producer, int)
        at = start_ms + self.at_ms
        plain = b"".join(_record(index, each) for index, each in enumerate(self.records))
        payload = gzip.compress(plain, mtime=0) if self.codec == "gzip" else plain
        values = (
            CODECS[self.codec] | self.attributes,
            len(self.records) - 1 + self.last_offset_off_by,
            at,
            at + self.max_time_off_by,
            self.producer,
            self.epoch,
            self.sequence,
            len(self.records) + self.count_off_by,
        )
        covered = struct.pack(">hiqqqhii", *values) + payload
        head = struct.pack(
            ">qiibI",
            self.base_offset,
            _CRC_FROM - _LENGTH_FROM + len(covered),
            -1,
            self.magic,
            (crc32c(covered) + self.crc_off_by) & 0xFFFFFFFF,
        )
        whole = head + covered
        return whole[: len(whole) - self.cut] + self.trailing


def _record(index: int, record: Record) -> bytes:
    headers = b"".join(_sized(key) + _sized(value) for key, value in record.headers)
    body = b"\0" + varint(0) + varint(index) + _sized(record.key) + _sized(record.value)
    body += varint(len(record.headers)) + headers
    return varint(len(body)) + body


def _sized(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def described(data: bytes) -> list[dict[str, Any]]:
    """The batches in an answer: their headers, whether the checksum is right, and a digest of the records.

    What follows the last whole batch is described by its length.
    """
    found: list[dict[str, Any]] = []
    at = 0
    while len(data) - at >= _HEADER.size:
        (
            base, length, leader_epoch, magic, crc, attributes, last, first_at, max_at, producer, epoch,
            sequence, count,
        ) = _HEADER.unpack_from(data, at)  # fmt: skip
        end = at + _LENGTH_FROM + length
        if end > len(data) or length < _HEADER.size - _LENGTH_FROM:
            break
        found.append({
            "BaseOffset": base,
            "LeaderEpoch": leader_epoch,
            "Magic": magic,
            "CrcIsRight": crc == crc32c(data[at + _CRC_FROM : end]),
            "Attributes": attributes,
            "LastOffsetDelta": last,
            "FirstTime": first_at,
            "MaxTime": max_at,
            "ProducerId": producer,
            "ProducerEpoch": epoch,
            "Sequence": sequence,
            "Count": count,
            **_contents(data[at + _HEADER.size : end], is_control=bool(attributes & CONTROL)),
        })  # fmt: skip
        at = end
    return [*found, {"LeftOver": len(data) - at}] if at < len(data) else found


def _contents(records: bytes, *, is_control: bool) -> dict[str, Any]:
    """The epoch of a marker's coordinator is its own field: it is a number of elections. A marker's value
    ends with it, before the count of headers (KIP-98, "Control Messages")."""
    if not is_control or len(records) < _MARKER_TAIL.size:
        return {"Records": _digest(records)}
    epoch, _ = _MARKER_TAIL.unpack_from(records, len(records) - _MARKER_TAIL.size)
    return {"Records": _digest(records[: -_MARKER_TAIL.size]), "CoordinatorEpoch": epoch}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
