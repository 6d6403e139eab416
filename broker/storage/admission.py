"""What a log takes: everything that is checked of records before a byte of them is written."""

from __future__ import annotations

from strandline.errors import CorruptMessage, InvalidRecord, UnsupportedCompression
from strandline.records import BatchHeader, decode_columns, gap_batch, validate


def from_producer(records: bytes, *, bytes_max: int, keyed: bool = False) -> BatchHeader:
    """The one plain batch that a producer may send at a time.

    `keyed`: the topic is compacted, so each record needs a key. That is the one thing for which records
    are looked at. Raises CorruptMessage, MessageTooLarge, InvalidRecord, UnsupportedCompression.
    """
    headers = validate(records, bytes_max=bytes_max)
    header = headers[0]
    marked = header.is_control or header.is_transactional or header.delete_horizon_ms is not None
    if len(headers) != 1 or marked:
        raise InvalidRecord(
            f"one plain batch is taken at a time; these are {len(headers)}, "
            f"the first with attributes {header.attributes:#06x}"
        )
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"the batch claims {header.record_count} records "
            f"but its last offset delta is {header.last_offset_delta}"
        )
    if keyed:
        _check_keys(records, header)
    return header


def _check_keys(records: bytes, header: BatchHeader) -> None:
    columns = decode_columns(records, header)
    if None in columns.keys:
        raise InvalidRecord(
            f"record {columns.keys.index(None)} of the batch has no key, and the topic is compacted by key"
        )
    if columns.offsets != list(range(header.base_offset, header.next_offset)):
        raise InvalidRecord(
            f"the offset deltas of the batch do not count from 0 to {header.last_offset_delta}"
        )


def from_leader(records: bytes, *, log_end_offset: int, last_epoch: int) -> tuple[bytes, list[BatchHeader]]:
    """Batches that continue a follower's log, offsets without a gap, epochs never going back.

    A leader that compacted its log may have made one gap of offsets that lie on both sides of this log's
    end: only the part from there on is taken. Raises CorruptMessage for everything else (E15): what a
    leader sends is right, or came through wrong.
    """
    try:
        headers = validate(records)
    except (InvalidRecord, UnsupportedCompression) as error:
        raise CorruptMessage(error.message) from error
    first = headers[0]
    if first.is_gap and first.base_offset < log_end_offset < first.next_offset:
        rest = gap_batch(log_end_offset, first.next_offset, first.leader_epoch)
        records = rest + records[first.end :]
        headers[0] = BatchHeader.parse(rest)
    expected, epoch = log_end_offset, max(last_epoch, 0)
    for header in headers:
        if header.base_offset != expected or header.leader_epoch < epoch:
            raise CorruptMessage(
                f"batch at offset {header.base_offset} of epoch {header.leader_epoch} "
                f"cannot follow offset {expected} of epoch {epoch}"
            )
        expected, epoch = header.next_offset, header.leader_epoch
    return records, headers
