"""What the replicas of one broker hold: DeleteRecords, DescribeLogDirs, DescribeProducers."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Steps, Writer
from strandline.broker.kafka.wire.topics import (
    TOPIC_BYTES_MIN,
    Topics,
    read_topic_numbers,
    read_topics,
    write_topics,
)

_DELETION_BYTES_MIN: Final = 12
_UNKNOWN: Final = -1

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


def read_deletions(reader: Reader, version: int) -> DeleteRecordsRequest:
    def read_partition(reader: Reader) -> PartitionDeletion:
        return PartitionDeletion(reader.int32(), reader.int64())

    topics = read_topics(reader, read_partition, bytes_min=_DELETION_BYTES_MIN)
    return DeleteRecordsRequest(topics, reader.int32())


def write_deletions(writer: Writer, answer: DeleteRecordsAnswer, version: int) -> None:
    def write_partition(found: DeletedPartition) -> None:
        writer.int32(found.partition)
        writer.int64(found.low_watermark)
        writer.int16(found.error)

    writer.throttle_time()
    write_topics(writer, answer.topics, write_partition)
    writer.tags()


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


def read_log_dirs(reader: Reader, version: int) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(reader.nullable_array(read_topic_numbers, bytes_min=TOPIC_BYTES_MIN))


def write_log_dirs(writer: Writer, answer: DescribeLogDirsAnswer, version: int) -> None:
    def write_partition(found: PartitionSize) -> None:
        writer.int32(found.partition)
        writer.int64(found.size_bytes)
        writer.int64(found.lag)
        writer.boolean(False)  # a replica that moves to another directory

    def write_directory(directory: LogDirectory) -> None:
        writer.int16(0)  # error
        writer.string(directory.path)
        write_topics(writer, directory.topics, write_partition)
        if version >= 4:
            writer.int64(directory.total_bytes)
            writer.int64(directory.free_bytes)
        writer.tags()

    writer.throttle_time()
    if version >= 3:
        writer.int16(answer.error)
    writer.array(answer.directories, write_directory)
    writer.tags()


# --- DescribeProducers ------------------------------------------------------------------------


class DescribeProducersRequest(NamedTuple):
    topics: Topics[int]


class ActiveProducer(NamedTuple):
    """`last_at_ms`: when its last batch was appended, in milliseconds since the Unix epoch."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_at_ms: int


class PartitionProducers(NamedTuple):
    partition: int
    error: int = 0
    message: str | None = None
    producers: tuple[ActiveProducer, ...] = ()


class DescribeProducersAnswer(NamedTuple):
    topics: Topics[PartitionProducers]


def read_producers(reader: Reader, version: int) -> DescribeProducersRequest:
    return DescribeProducersRequest(reader.array(read_topic_numbers, bytes_min=TOPIC_BYTES_MIN))


def write_producers(writer: Writer, answer: DescribeProducersAnswer, version: int) -> Steps:
    def write_producer(found: ActiveProducer) -> None:
        writer.int64(found.producer_id)
        writer.int32(found.producer_epoch)
        writer.int32(found.last_sequence)
        writer.int64(found.last_at_ms)
        writer.int32(_UNKNOWN)  # the epoch of a transaction's coordinator
        writer.int64(_UNKNOWN)  # where an open transaction began
        writer.tags()

    writer.throttle_time()
    writer.length(len(answer.topics))
    for topic in answer.topics:
        writer.string(topic.name)
        writer.length(len(topic.partitions))
        for found in topic.partitions:
            writer.int32(found.partition)
            writer.int16(found.error)
            writer.string(found.message)
            yield from writer.large_array(found.producers, write_producer)
            yield
            writer.tags()
        writer.tags()
    writer.tags()
