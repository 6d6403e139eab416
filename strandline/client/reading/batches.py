"""Splits fetched records into batches, and finds the first damaged batch."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.client.reading.records import FetchedBatch, damaged
from strandline.errors import CorruptMessage, UndecodableBatch
from strandline.ids import TopicPartition
from strandline.records import BatchHeader, iterate
from strandline.records.header import crc_of
from strandline.records.isolation import LeftOut


def batches_of(
    name: TopicPartition, offset: int, records: bytes, aborted: Iterable[tuple[int, int]] = ()
) -> tuple[list[FetchedBatch], UndecodableBatch | None]:
    """The batches from `offset` on, up to a damaged one, and the error that names the damaged one.

    Without markers, and what was `aborted` (`LeftOut`). If such a batch is the last one, an empty batch takes
    its place: the reader goes on behind it.

    A batch is damaged if it is cut off, or if its CRC is not that of its bytes: it may be intact elsewhere.
    Records are decoded only when they are delivered.
    """
    batches: list[FetchedBatch] = []
    at = offset
    header: BatchHeader | None = None
    headers = iterate(records)
    left_out = LeftOut(aborted)
    passed: BatchHeader | None = None
    wrong: UndecodableBatch | None = None
    try:
        while (header := next(headers, None)) is not None:
            _check(header, records)
            leaves_out = left_out.leaves_out(records, header)
            if header.next_offset > offset:
                passed = header if leaves_out else None
                if not leaves_out:
                    batches.append(FetchedBatch(name, header, records, offset))
            at = max(at, header.next_offset)
    except CorruptMessage as error:
        next_offset = at + 1 if header is None else max(at + 1, header.next_offset)
        wrong = damaged(name, at, next_offset, error)
    if passed is not None:
        batches.append(FetchedBatch(name, passed, records, passed.next_offset))
    return batches, wrong


def _check(header: BatchHeader, records: bytes) -> None:
    """Raises CorruptMessage."""
    crc = crc_of(records, header)
    if crc != header.crc:
        raise CorruptMessage(f"{header.size} bytes have CRC {crc:#010x}, their batch says {header.crc:#010x}")
    if header.last_offset_delta < 0:
        raise CorruptMessage(f"a batch has last offset delta {header.last_offset_delta}")
