"""Fetch: records from given offsets on."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Writer
from strandline.broker.kafka.wire.leaders import CurrentLeader, leader_tags
from strandline.broker.kafka.wire.topics import OfTopic, Topics, read_topics

_PARTITION_BYTES_MIN: Final = 16
_FETCH: Final = struct.Struct(">iiiib")
_POSITION: Final = struct.Struct(">iiq")
_FETCHED: Final = struct.Struct(">ihqq")

READ_COMMITTED: Final = 1
"""As `isolation_level`: records of transactions that ended well."""
FINAL_SESSION_EPOCH: Final = -1
"""As `session_epoch`: a fetch outside sessions, or one that ends its session (KIP-227)."""


class PartitionPosition(NamedTuple):
    """Where to read in one partition. `leader_epoch` is -1 if the client does not know it."""

    partition: int
    leader_epoch: int
    offset: int
    bytes_max: int


class FetchRequest(NamedTuple):
    wait_ms: int
    bytes_min: int
    bytes_max: int
    isolation_level: int
    topics: Topics[PartitionPosition]
    session_id: int = 0
    session_epoch: int = FINAL_SESSION_EPOCH


class FetchedPartition(NamedTuple):
    partition: int
    error: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    leader: CurrentLeader | None = None
    """For clients from version 12 on."""


class FetchAnswer(NamedTuple):
    """`error` is for the whole request; clients before version 7 do not see it. `aborted`: whether the
    (empty) list of aborted transactions is sent, as to readers of committed records."""

    topics: Topics[FetchedPartition]
    error: int = 0
    aborted: bool = False


def read_request(reader: Reader, version: int) -> FetchRequest:
    def read_partition(reader: Reader) -> PartitionPosition:
        if version >= 9:
            partition, epoch, offset = reader.numbers(_POSITION)
        else:
            partition, epoch, offset = reader.int32(), -1, reader.int64()
        if version >= 12:
            reader.int32()  # the epoch of the last record that a follower fetched
        if version >= 5:
            reader.int64()  # the log start of a follower
        return PartitionPosition(partition, epoch, offset, reader.int32())

    _follower, wait_ms, bytes_min, bytes_max, isolation_level = reader.numbers(_FETCH)
    session_id, session_epoch = 0, FINAL_SESSION_EPOCH
    if version >= 7:
        session_id, session_epoch = reader.int32(), reader.int32()
    topics = read_topics(reader, read_partition, bytes_min=_PARTITION_BYTES_MIN)
    if version >= 7:
        reader.array(_skip_forgotten, bytes_min=2)
    if version >= 11:
        reader.string()  # the client's rack
    return FetchRequest(wait_ms, bytes_min, bytes_max, isolation_level, topics, session_id, session_epoch)


def _skip_forgotten(reader: Reader) -> None:
    """Partitions of one topic that leave a session."""
    reader.string()
    reader.array(Reader.int32, bytes_min=4)
    reader.tags()


def write_answer(writer: Writer, answer: FetchAnswer, version: int) -> None:
    aborted: tuple[int, ...] | None = () if answer.aborted else None

    def write_partition(found: FetchedPartition) -> None:
        stable = found.last_stable_offset
        writer.numbers(_FETCHED, found.partition, found.error, found.high_watermark, stable)
        if version >= 5:
            writer.int64(found.log_start_offset)
        writer.array(aborted, writer.int64)
        if version >= 11:
            writer.int32(-1)  # the replica to read from: the leader
        writer.records(found.records)
        writer.tags(leader_tags(1, found.leader))

    def write_topic(topic: OfTopic[FetchedPartition]) -> None:
        writer.string(topic.name)
        writer.array(topic.partitions, write_partition)
        writer.tags()

    writer.throttle_time()
    if version >= 7:
        writer.int16(answer.error)
        writer.int32(0)  # no session
    writer.array(answer.topics, write_topic)
    writer.tags()
