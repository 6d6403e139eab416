"""Finds the first record of a time or later, in steps that each take little of the event loop.

A batch's header claims the time of its latest record. A step finds the next batch whose claim is high enough;
its records, which may be read in a thread, show whether the claim is true.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.errors import CorruptMessage, UnsupportedCompression
from strandline.records import BatchHeader
from strandline.records.scan import glance

HEADERS_PER_STEP_MAX: Final = 1_000
"""The headers that one step reads."""


class SearchStep(NamedTuple):
    """The result of one step: the next one begins at `next_offset`."""

    next_offset: int
    header: BatchHeader | None = None
    """The header of a batch that claims a record of the time or later."""
    batch: bytes = b""


def first_not_older(
    step: SearchStep, timestamp_ms: int | None, *, start: int, below: int
) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record of this time or later in the batch that was found. None: of the
    latest time that the batch claims."""
    header = step.header
    if header is None:
        return None
    if timestamp_ms is None:
        timestamp_ms = header.max_timestamp
    try:
        for offset, timestamp, _ in glance(step.batch, header._replace(position=0)):
            if timestamp >= timestamp_ms and start <= offset < below:
                return offset, timestamp
    except (CorruptMessage, UnsupportedCompression):
        # The CRC held when the batch was appended, so a client encoded it wrongly. A broker does not read
        # records and could not know. The batch itself is the best answer there is.
        if start <= header.base_offset < below:
            return header.base_offset, header.max_timestamp
    return None
