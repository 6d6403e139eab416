"""What a log takes: everything that is checked of records before a byte of them is written."""

from __future__ import annotations

from strandline.errors import CorruptMessage, InvalidRecord, UnsupportedCompression
from strandline.records import BatchHeader, validate


def from_producer(records: bytes, *, bytes_max: int) -> BatchHeader:
    """The one plain batch that a producer may send at a time.

    Raises CorruptMessage, MessageTooLarge, InvalidRecord, UnsupportedCompression.
    """
    headers = validate(records, bytes_max=bytes_max)
    header = headers[0]
    if len(headers) != 1 or header.is_control or header.is_transactional:
        raise InvalidRecord(
            f"one plain batch is taken at a time; these are {len(headers)}, "
            f"the first with attributes {header.attributes:#06x}"
        )
    return header


def from_leader(records: bytes, *, log_end_offset: int, last_epoch: int) -> list[BatchHeader]:
    """Batches that continue a follower's log, offsets without a gap, epochs never going back.

    Raises CorruptMessage for everything else (E15): what a leader sends is right, or came through wrong.
    """
    try:
        headers = validate(records)
    except (InvalidRecord, UnsupportedCompression) as error:
        raise CorruptMessage(error.message) from error
    expected, epoch = log_end_offset, max(last_epoch, 0)
    for header in headers:
        if header.base_offset != expected or header.leader_epoch < epoch:
            raise CorruptMessage(
                f"batch at offset {header.base_offset} of epoch {header.leader_epoch} "
                f"cannot follow offset {expected} of epoch {epoch}"
            )
        expected, epoch = header.next_offset, header.leader_epoch
    return headers
