"""Reads the batches of a segment file that may be damaged, and tells missing bytes from wrong ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from strandline.errors import CorruptMessage, InvalidRecord, UnsupportedCompression
from strandline.ports import Files
from strandline.records import HEADER_BYTES, BatchHeader
from strandline.records.header import LENGTH_PREFIX_BYTES, MAGIC, check_consistent, crc_of

SCAN_BYTES: Final = 1 << 20
SECTOR_BYTES: Final = 512
"""The least that a disk writes as a whole. A sector of a file that was never written reads as zeros."""
_MAGIC_AT: Final = 16


@dataclass(frozen=True, slots=True)
class Bad:
    """The first position in a segment that does not hold the expected batch."""

    position: int
    offset: int
    reason: str


def scan(
    files: Files, descriptor: int, size: int, base_offset: int, *, epoch: int = -1
) -> Iterator[BatchHeader | Bad]:
    """Every batch of a segment with its CRC checked; ends with a `Bad` at the first that is not good.

    `epoch` is that of the batch before the segment: epochs never decrease, across segments either.
    """
    position, offset = 0, base_offset
    window, start = b"", 0
    while position < size:
        at = position - start
        need = HEADER_BYTES
        if len(window) - at >= LENGTH_PREFIX_BYTES:
            need = max(need, LENGTH_PREFIX_BYTES + int.from_bytes(window[at + 8 : at + 12], "big"))
        if len(window) - at < need and start + len(window) < size and need <= size - position:
            window = files.read(descriptor, max(SCAN_BYTES, need), position)
            start = position
            if len(window) < min(need, size - position):
                yield Bad(position, offset, f"{len(window)} bytes could be read of {size - position}")
                return
            continue
        found = checked(window, at, offset, epoch, start)
        if isinstance(found, str):
            yield Bad(position, offset, found)
            return
        yield found
        position, offset, epoch = found.end, found.next_offset, found.leader_epoch


def checked(data: bytes, at: int, offset: int, epoch: int, start: int = 0) -> BatchHeader | str:
    """The header of the batch at a position, or what is wrong with it if it should begin at `offset`.
    `start`: as for `BatchHeader.parse`."""
    try:
        header = BatchHeader.parse(data, at, start)
        if header.magic != MAGIC or header.size < HEADER_BYTES or at + header.size > len(data):
            return f"no whole batch (magic {header.magic}, {header.size} bytes, {len(data) - at} are there)"
        crc = crc_of(data, header, start)
        if crc != header.crc:
            return f"CRC {header.crc:#010x}, its bytes have {crc:#010x}"
        check_consistent(header)
    except (CorruptMessage, InvalidRecord, UnsupportedCompression) as error:
        return error.message
    if header.base_offset != offset:
        return f"base offset {header.base_offset}, wanted {offset}"
    if header.leader_epoch < epoch:
        return f"epoch {header.leader_epoch} after {epoch}"
    return header


def is_unwritten(files: Files, descriptor: int, bad: Bad, size: int, survivor: BatchHeader | None) -> bool:
    """True if bytes are missing between a bad batch and the next good one: the file ends within a batch, or a
    sector has only zeros."""
    if survivor is None:
        head = files.read(descriptor, HEADER_BYTES, bad.position)
        if len(head) < HEADER_BYTES or BatchHeader.parse(head).end > size - bad.position:
            return True
    end = size if survivor is None else survivor.position
    at = bad.position
    while at < end:
        window = files.read(descriptor, SCAN_BYTES - at % SECTOR_BYTES, at)
        if not window:
            break
        first = SECTOR_BYTES - at % SECTOR_BYTES
        # The rest of a sector may have only the first bytes of an offset. They can be zeros, a length cannot.
        head = window[:first]
        known = bad.offset.to_bytes(8, "big")[:first] if at == bad.position else b"\1"
        if not any(head) and (len(head) >= LENGTH_PREFIX_BYTES or any(known)):
            return True
        for start in range(first, min(len(window), end - at), SECTOR_BYTES):
            if not any(window[start : start + SECTOR_BYTES]):
                return True
        at += len(window)
    return False


def find_batch(files: Files, descriptor: int, start: int, size: int, above: int) -> BatchHeader | None:
    """The first good batch at or after a position whose offset is above the given one.

    Any byte may begin one, because a damaged length hides where batches begin. A candidate has an offset not
    far above and the magic in its place; then its CRC decides.
    """
    near = b"|".join(re.escape(((above >> 32) + more).to_bytes(4, "big")) for more in (0, 1))
    looks_like_one = re.compile(rb"(?=(?:%b).{12}\x02)" % near, re.DOTALL)
    for position in range(start, size, SCAN_BYTES):
        window = files.read(descriptor, SCAN_BYTES + HEADER_BYTES, position)
        for match in looks_like_one.finditer(window, 0, len(window) - HEADER_BYTES + _MAGIC_AT + 1):
            header = BatchHeader.parse(window, match.start(), position)
            if header.base_offset > above and header.size >= HEADER_BYTES and header.end <= size:
                data = files.read(descriptor, header.size, header.position)
                if isinstance(checked(data, 0, header.base_offset, -1), BatchHeader):
                    return header
    return None
