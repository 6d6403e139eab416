"""Splits what a fetch brought into batches, and says what is wrong with the first that is damaged."""

from __future__ import annotations

from strandline.consumer.records import FetchedBatch, damaged
from strandline.errors import CorruptMessage, UndecodableBatch
from strandline.ids import TopicPartition
from strandline.records import BatchHeader, iterate
from strandline.records.header import crc_of


def batches_of(
    name: TopicPartition, offset: int, records: bytes
) -> tuple[list[FetchedBatch], UndecodableBatch | None]:
    """The batches from `offset` on up to a damaged one, and the error that names that one.

    Damaged is a batch that is cut, or whose CRC is not that of its bytes: it may be whole elsewhere. Whether
    the records of a batch can be decoded is found out when they are wanted.
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
