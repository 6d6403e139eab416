"""Splits fetched records into batches, and finds the first damaged batch."""

from __future__ import annotations

from strandline.client.reading.records import FetchedBatch, damaged
from strandline.errors import CorruptMessage, UndecodableBatch
from strandline.ids import TopicPartition
from strandline.records import BatchHeader, iterate
from strandline.records.header import crc_of


def batches_of(
    name: TopicPartition, offset: int, records: bytes
) -> tuple[list[FetchedBatch], UndecodableBatch | None]:
    """The batches from `offset` on, up to a damaged one, and the error that names the damaged one.

    A batch is damaged if it is cut off, or if its CRC is not that of its bytes: it may be intact elsewhere.
    Records are decoded only when they are delivered.
    """
    batches: list[FetchedBatch] = []
    at = offset
    header: BatchHeader | None = None
    headers = iterate(records)
    try:
        while (header := next(headers, None)) is not None:
            _check(header, records)
            if header.next_offset > offset and not header.is_control:
                batches.append(FetchedBatch(name, header, records, offset))
            at = max(at, header.next_offset)
    except CorruptMessage as error:
        next_offset = at + 1 if header is None else max(at + 1, header.next_offset)
        return batches, damaged(name, at, next_offset, error)
    return batches, None


def _check(header: BatchHeader, records: bytes) -> None:
    """Raises CorruptMessage."""
    crc = crc_of(records, header)
    if crc != header.crc:
        raise CorruptMessage(f"{header.size} bytes have CRC {crc:#010x}, their batch says {header.crc:#010x}")
    if header.last_offset_delta < 0:
        raise CorruptMessage(f"a batch has last offset delta {header.last_offset_delta}")
