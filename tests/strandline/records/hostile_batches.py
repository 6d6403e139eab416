"""Batches with a correct CRC that no producer means."""

from __future__ import annotations

from strandline.ids import NO_PRODUCER
from strandline.records import BatchHeader
from strandline.records.header import MAGIC, assemble
from strandline.records.varint import encode_varint


def timed(base_timestamp: int, *records: tuple[int, bytes | None], attributes: int = 0) -> bytes:
    """A batch with a record of the key "k" for each of these timestamp deltas and values."""
    body = b"".join(_record(index, delta, value) for index, (delta, value) in enumerate(records))
    header = BatchHeader(
        0, 0, 0, 0, MAGIC, 0, attributes, len(records) - 1,
        base_timestamp, base_timestamp, NO_PRODUCER, -1, -1, len(records),
    )  # fmt: skip
    return assemble(header, body)


def _record(index: int, delta: int, value: bytes | None) -> bytes:
    written = encode_varint(-1) if value is None else encode_varint(len(value)) + value
    key = encode_varint(1) + b"k"
    record = b"\x00" + encode_varint(delta) + encode_varint(index) + key + written + b"\x00"
    return encode_varint(len(record)) + record
