"""Removes records from batches, for log compaction.

A batch keeps its offsets, its epoch and its producer's numbers, even if it loses records. Records are
copied in their encoding, because the base values do not change. So a compacted log still has a
batch for every offset, and a reader recognizes a gap by the batch that covers it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import compress as select
from itertools import pairwise
from typing import Final

from strandline.errors import CorruptMessage
from strandline.ids import NO_PRODUCER
from strandline.records.compression import Codec, compress, decompress
from strandline.records.encode import NO_SEQUENCE
from strandline.records.header import HEADER_BYTES, MAGIC, TRANSACTIONAL, BatchHeader, assemble
from strandline.records.varint import VARINTS, decode_varint

_NO_TIMESTAMP: Final = -1


def gap_batch(base_offset: int, next_offset: int, leader_epoch: int) -> bytes:
    """A batch without records or producer: these offsets of this epoch have no records."""
    header = BatchHeader(
        0, base_offset, 0, leader_epoch, MAGIC, 0, 0, next_offset - base_offset - 1,
        _NO_TIMESTAMP, _NO_TIMESTAMP, NO_PRODUCER, -1, NO_SEQUENCE, 0,
    )  # fmt: skip
    return assemble(header, b"")


def emptied(header: BatchHeader) -> bytes:
    """The batch without its records; it still carries its producer's sequence."""
    bare = header._replace(
        attributes=0, base_timestamp=_NO_TIMESTAMP, max_timestamp=_NO_TIMESTAMP, record_count=0
    )
    return assemble(bare, b"")


def without_transaction(batch: bytes) -> bytes:
    """A committed batch as if it had been written outside its transaction: it no longer needs the marker."""
    header = BatchHeader.parse(batch)
    plain = header._replace(attributes=header.attributes & ~TRANSACTIONAL)
    if header.base_sequence < 0:
        plain = plain._replace(producer_id=NO_PRODUCER, producer_epoch=-1)
    return assemble(plain, batch[HEADER_BYTES:])


def keep_records(
    batch: bytes,
    header: BatchHeader,
    wanted: Sequence[bool],
    *,
    max_timestamp: int,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """The batch with only the wanted records, at least one, at their old offsets.

    `batch` is this one batch, and `wanted` has a flag for each of its records; `max_timestamp` is
    that of the wanted ones. `delete_horizon_ms` is put into the header. Raises CorruptMessage if a
    time does not fit 64 bits, or is further from the horizon than they reach; IndexError or ValueError
    if the bytes are no valid records: decode them first.
    """
    codec = header.codec
    body = batch[HEADER_BYTES:]
    if codec is not Codec.NONE:
        body = decompress(codec, body)
    spans = list(select(pairwise(_bounds(body, header.record_count)), wanted))
    kept = header._replace(max_timestamp=max_timestamp, record_count=len(spans))
    try:
        if delete_horizon_ms is None:
            records = b"".join([body[start:end] for start, end in spans])
        else:
            kept = kept.with_delete_horizon(delete_horizon_ms)
            later = header.base_timestamp - delete_horizon_ms
            records = b"".join([_moved(body, start, end, later) for start, end in spans])
        return assemble(kept, compress(codec, records))
    except (OverflowError, struct.error) as error:
        raise CorruptMessage(f"batch at offset {header.base_offset}: {error}") from None


def _bounds(body: bytes, count: int) -> list[int]:
    """The start of each record, and the end of the last one."""
    bounds = [0]
    add, at = bounds.append, 0
    for _ in range(count):
        if (raw := body[at]) < 0x80:
            at += 1 + (raw >> 1)
        elif (high := body[at + 1]) < 0x80:
            at += 2 + (raw + (high << 7) - 0x80 >> 1)
        else:
            length, at = decode_varint(body, at)
            at += length
        add(at)
    return bounds


def _moved(body: bytes, start: int, end: int, later_ms: int) -> bytes:
    """A record with its timestamp relative to another base: attributes come first, then the delta."""
    _, at = decode_varint(body, start)
    delta, rest = decode_varint(body, at + 1)
    moved = VARINTS[delta + later_ms]
    length = 1 + len(moved) + end - rest
    return b"".join((VARINTS[length], body[at : at + 1], moved, body[rest:end]))
