"""Checks records before any byte of them is written to a log; and the value that says where they are then."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from strandline.broker.core.replication.producer_state import UNKNOWN_CRC
from strandline.config.limits import MIB
from strandline.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, UnsupportedCompression
from strandline.records import HEADER_BYTES, BatchHeader, Codec, gap_batch, validate, with_append_time
from strandline.records.decode import RECORD_BYTES_MIN
from strandline.records.scan import (
    COMPRESSION_RATIO_MAX,
    first_without_key,
    glance,
    has_header_without_key,
)
from strandline.vocabulary.topic_config import PRODUCERS_CODEC, TopicConfig

NO_TIMESTAMP: Final = -1
"""The time of a record whose producer gave none."""
RECORDS_NAMED_MAX: Final = 10_000
BYTES_NAMED_MAX: Final = 1 * MIB
"""Records of a batch that is searched for those with a wrong time, on the event loop, and their bytes."""
KEYED_RECORDS_MAX: Final = 65_536
"""Records in one batch for a compacted topic, whose leader reads each, on its event loop."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The offsets of a batch in the log. `duplicate`: it was there before, nothing was written."""

    base_offset: int
    next_offset: int
    duplicate: bool = False
    append_time_ms: int = NO_TIMESTAMP
    """The time that its records got from the leader (LogAppendTime). Of a batch that was there before, the
    latest time that its producer gave, as Kafka's brokers answer."""


def known(base_offset: int, last_offset: int, header: BatchHeader, config: TopicConfig) -> Appended:
    """Where a batch is that was there before."""
    time_ms = NO_TIMESTAMP if config.has_append_times else header.max_timestamp
    return Appended(base_offset, last_offset + 1, True, time_ms)


def from_producer(records: bytes, *, bytes_max: int, keyed: bool = False) -> BatchHeader:
    """Checks a producer's request: one batch at a time, without the marks that only brokers make.

    `keyed`: the topic is compacted, so each record needs a key. Records are read for this check only.
    Raises CorruptMessage, MessageTooLarge, InvalidRecord, UnsupportedCompression.
    """
    headers = validate(records, bytes_max=bytes_max)
    header = headers[0]
    marked = header.is_control or header.delete_horizon_ms is not None
    if len(headers) != 1 or marked:
        raise InvalidRecord(
            f"one batch of records is taken at a time; these are {len(headers)}, "
            f"the first with attributes {header.attributes:#06x}"
        )
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"the batch claims {header.record_count} records "
            f"but its last offset delta is {header.last_offset_delta}"
        )
    _check_count(header)
    if keyed:
        _check_keys(records, header)
    return header


def check_client(records: bytes, header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    """What clients' batches have to pass. Raises InvalidRecord, InvalidTimestamp, UnsupportedCompression."""
    if header.base_offset != 0:
        raise InvalidRecord(f"the batch has base offset {header.base_offset}: only a log gives offsets")
    if header.is_transactional and header.base_sequence < 0:
        raise InvalidRecord(f"the batch is in a transaction, without a producer's sequence: {header}")
    check_times(records, header, config, now_ms)
    if has_header_without_key(records, header):
        raise InvalidRecord("a record of the batch has a header without a key")


def check_times(records: bytes, header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    """Refuses times that are too far from this broker's clock: the largest and the first one of the batch are
    looked at, as its header has them. Other records are read only to name those that are wrong.

    Raises InvalidTimestamp, also for a batch that claims to have its time from a broker.
    """
    if header.is_log_append_time:
        raise InvalidTimestamp("the batch claims to have its time from a broker: only brokers give that")
    if config.has_append_times:
        return
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    first = header.base_timestamp
    if header.max_timestamp <= latest and (first >= earliest or first == NO_TIMESTAMP):
        return
    refusal = InvalidTimestamp(
        f"the batch has times from {first} to {header.max_timestamp} ms; by message.timestamp.before.max.ms "
        f"and message.timestamp.after.max.ms, {earliest} to {latest} are taken now"
    )
    with suppress(CorruptMessage, UnsupportedCompression):  # opaque, or too large to be read for this
        if header.record_count <= RECORDS_NAMED_MAX:
            found = enumerate(glance(records, header, bytes_max=BYTES_NAMED_MAX))
            refusal.records = tuple(
                index
                for index, each in found
                if each.timestamp != NO_TIMESTAMP and not earliest <= each.timestamp <= latest
            )
    raise refusal


def known_again(header: BatchHeader, config: TopicConfig) -> BatchHeader:
    """The header by which a batch that its producer repeats is known. Where the topic names a codec it has no
    CRC: another broker, or another config, may compress the same records to other bytes."""
    return header if config.compression_type == PRODUCERS_CODEC else header._replace(crc=UNKNOWN_CRC)


def stored(
    records: bytes, header: BatchHeader, config: TopicConfig, now_ms: int
) -> tuple[bytes, BatchHeader]:
    """The batch as the topic's config wants it in the log."""
    if not config.has_append_times:
        return records, header
    stamped = with_append_time(records, header, now_ms)
    return stamped, BatchHeader.parse(stamped)


def _check_count(header: BatchHeader) -> None:
    """Refuses a record count that the batch cannot hold, as a leader does not decompress batches.

    A batch of 61 bytes that claimed 2^31 - 1 records would take that many offsets, and a segment of its own.
    """
    plain = header.codec is Codec.NONE
    size = (header.size - HEADER_BYTES) * (1 if plain else COMPRESSION_RATIO_MAX)
    if header.record_count * RECORD_BYTES_MIN > size:
        raise InvalidRecord(
            f"the batch claims {header.record_count} records in {header.size - HEADER_BYTES} bytes of codec "
            f"{header.codec.name.lower()}; at most {size // RECORD_BYTES_MIN} are believed",
            limit=size // RECORD_BYTES_MIN,
        )


def _check_keys(records: bytes, header: BatchHeader) -> None:
    if header.record_count > KEYED_RECORDS_MAX:
        raise InvalidRecord(
            f"the batch has {header.record_count} records, and the topic is compacted by key: send at most "
            f"{KEYED_RECORDS_MAX} in one batch",
            limit=KEYED_RECORDS_MAX,
        )
    unkeyed = first_without_key(records, header)
    if unkeyed is not None:
        refusal = InvalidRecord(
            f"record {unkeyed} of the batch has no key, and the topic is compacted by key"
        )
        refusal.records = tuple(index for index, each in enumerate(glance(records, header)) if not each.keyed)
        raise refusal


def from_leader(records: bytes, *, log_end_offset: int, last_epoch: int) -> tuple[bytes, list[BatchHeader]]:
    """Checks that batches continue a follower's log: offsets without a gap, epochs never decreasing.

    A leader that compacted its log may have made one gap of offsets that lie on both sides of this log's
    end: only the part from there on is taken. Raises CorruptMessage for everything else (E15): a leader
    sends valid batches, so they were damaged on the way.
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
