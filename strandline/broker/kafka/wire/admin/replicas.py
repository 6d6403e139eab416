"""What the replicas of one broker hold: DeleteRecords, DescribeLogDirs, DescribeProducers."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    BOOL,
    ERROR,
    INT16,
    INT32,
    INT64,
    MESSAGE,
    PARTITION,
    STRING,
    Array,
    Struct,
    constant,
    row,
    throttle,
)
from strandline.broker.kafka.wire.topics import Topics, topics

# --- DeleteRecords ----------------------------------------------------------------------------


class PartitionDeletion(NamedTuple):
    """`offset`: the first one that stays; -1: the high watermark."""

    partition: int
    offset: int


class DeleteRecordsRequest(NamedTuple):
    topics: Topics[PartitionDeletion]
    timeout_ms: int


class DeletedPartition(NamedTuple):
    """`low_watermark`: where the log starts on all in-sync replicas; -1 with an error."""

    partition: int
    error: int = 0
    low_watermark: int = -1


class DeleteRecordsAnswer(NamedTuple):
    topics: Topics[DeletedPartition]


_DELETION: Final = Struct(PartitionDeletion, PARTITION, INT64("offset"))
DELETE_REQUEST: Final = Struct(DeleteRecordsRequest, topics(_DELETION), INT32("timeout_ms"))
_DELETED: Final = Struct(DeletedPartition, PARTITION, INT64("low_watermark"), ERROR)
DELETE_ANSWER: Final = Struct(DeleteRecordsAnswer, throttle(), topics(_DELETED))


# --- DescribeLogDirs --------------------------------------------------------------------------


class DescribeLogDirsRequest(NamedTuple):
    """`topics` None: all."""

    topics: Topics[int] | None


class PartitionSize(NamedTuple):
    """`lag`: how many offsets the log's end is below the high watermark."""

    partition: int
    size_bytes: int
    lag: int = 0


class LogDirectory(NamedTuple):
    """`total_bytes` and `free_bytes` are those of its disk; -1: unknown."""

    path: str
    topics: Topics[PartitionSize]
    total_bytes: int = -1
    free_bytes: int = -1


class DescribeLogDirsAnswer(NamedTuple):
    """`error` is of the whole request; before version 3 the directories are only missing."""

    directories: tuple[LogDirectory, ...]
    error: int = 0


DIRS_REQUEST: Final = Struct(DescribeLogDirsRequest, topics(INT32, topic="topic", nullable=0))
_SIZE: Final = Struct(
    PartitionSize,
    PARTITION,
    INT64("partition_size", "size_bytes"),
    INT64("offset_lag", "lag"),
    constant("is_future_key", BOOL, False),  # a replica that moves to another directory
)
_DIRECTORY: Final = Struct(
    LogDirectory,
    constant("error_code", INT16, 0),
    STRING("log_dir", "path"),
    topics(_SIZE),
    INT64("total_bytes", since=4),
    INT64("usable_bytes", "free_bytes", since=4),
    constant("is_cordoned", BOOL, False, since=5),  # one directory a broker: it takes every new replica
)
DIRS_ANSWER: Final = Struct(
    DescribeLogDirsAnswer,
    throttle(),
    INT16("error_code", "error", since=3),
    row("results", Array(_DIRECTORY), "directories"),
)


# --- DescribeProducers ------------------------------------------------------------------------


class DescribeProducersRequest(NamedTuple):
    topics: Topics[int]


class ActiveProducer(NamedTuple):
    """`last_at_ms`: when its last batch or marker was appended, in milliseconds since the Unix epoch.
    `coordinator_epoch` is that of its last marker, `transaction_offset` where its open transaction begins; -1
    if there is none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int = -1
    last_at_ms: int = -1
    coordinator_epoch: int = -1
    transaction_offset: int = -1


class PartitionProducers(NamedTuple):
    partition: int
    error: int = 0
    message: str | None = None
    producers: tuple[ActiveProducer, ...] = ()


class DescribeProducersAnswer(NamedTuple):
    topics: Topics[PartitionProducers]


PRODUCERS_REQUEST: Final = Struct(DescribeProducersRequest, topics(INT32, partitions="partition_indexes"))
_PRODUCER: Final = Struct(
    ActiveProducer,
    INT64("producer_id"),
    INT32("producer_epoch"),
    INT32("last_sequence"),
    INT64("last_timestamp", "last_at_ms"),
    INT32("coordinator_epoch"),
    INT64("current_txn_start_offset", "transaction_offset"),
)
_PRODUCERS: Final = row("active_producers", Array(_PRODUCER, large=True), "producers")
PRODUCERS_ANSWER: Final = Struct(
    DescribeProducersAnswer,
    throttle(),
    topics(Struct(PartitionProducers, PARTITION, ERROR, MESSAGE, _PRODUCERS)),
)
