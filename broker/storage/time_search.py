"""Looking for the first record of a time or later, in steps that each take little of the event loop.

A batch's header claims the time of its youngest record. A step finds the next batch that claims enough; its
records, which may be looked at in a thread, show whether the claim is true.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.errors import CorruptMessage, UnsupportedCompression
from strandline.records import BatchHeader
from strandline.records.scan import glance

HEADERS_LOOKED_AT_MAX: Final = 1_000
"""In one step."""


class Look(NamedTuple):
    """What one step found: the next one begins at `next_offset`."""

    next_offset: int
    header: BatchHeader | None = None
    """Of a batch that claims a record of the time or later."""
    batch: bytes = b""


def first_not_older(look: Look, timestamp_ms: int, *, start: int, below: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record of this time or later in the batch that was found."""
    header = look.header
    if header is None:
        return None
    try:
        for offset, timestamp, _ in glance(look.batch, header._replace(position=0)):
            if timestamp >= timestamp_ms and start <= offset < below:
                return offset, timestamp
    except (CorruptMessage, UnsupportedCompression):
        # The CRC held when it was appended, so a client encoded it wrongly and a broker, for which
        # records are opaque, could not know. The batch itself is the best answer there is.
        if start <= header.base_offset < below:
            return header.base_offset, header.max_timestamp
    return None
