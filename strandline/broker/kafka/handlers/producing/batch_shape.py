"""Looks at the bytes for a partition before any log is asked.

Kafka's brokers refuse what is not one batch with INVALID_RECORD: a producer does not send it again.
"""

from __future__ import annotations

from typing import Final

from strandline.errors import CorruptMessage, InvalidRecord
from strandline.records.header import HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC

_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16


def one_batch(records: bytes) -> bytes | InvalidRecord | CorruptMessage:
    """The batch in these bytes, or why they are not one. As in Kafka, bytes after it are left out if they are
    too few for a batch."""
    if len(records) <= _MAGIC_AT:
        return InvalidRecord(f"{len(records)} bytes are no batch")
    magic = records[_MAGIC_AT]
    if magic < MAGIC:
        return InvalidRecord(f"a batch of format {magic}: format {MAGIC} is stored")
    if magic > MAGIC:
        return CorruptMessage(f"a batch of format {magic}, which is not known")
    end = LENGTH_PREFIX_BYTES + int.from_bytes(records[_LENGTH_AT:LENGTH_PREFIX_BYTES], "big", signed=True)
    if not HEADER_BYTES <= end <= len(records):
        return InvalidRecord(f"{len(records)} bytes are no batch of {end}")
    if end + HEADER_BYTES <= len(records):
        return InvalidRecord("more than one batch for a partition: one is taken at a time")
    return records if end == len(records) else records[:end]
