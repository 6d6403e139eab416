"""Produce: batches to append."""

from __future__ import annotations

from typing import NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Writer
from strandline.broker.kafka.wire.topics import Topics, read_topics, write_topics

_PARTITION_BYTES_MIN = 5


class PartitionRecords(NamedTuple):
    """The batch for one partition, as a part of the frame."""

    partition: int
    records: memoryview | None


class ProduceRequest(NamedTuple):
    acks: int
    timeout_ms: int
    topics: Topics[PartitionRecords]
    transactional_id: str | None = None


class ProducedPartition(NamedTuple):
    """`base_offset` is -1 with an error. `message` goes to clients from version 8 on."""

    partition: int
    error: int = 0
    base_offset: int = -1
    log_start_offset: int = -1
    message: str | None = None


class ProduceAnswer(NamedTuple):
    topics: Topics[ProducedPartition]


def read_request(reader: Reader, version: int) -> ProduceRequest:
    def read_partition(reader: Reader) -> PartitionRecords:
        return PartitionRecords(reader.int32(), reader.nullable_bytes())

    transactional_id = reader.nullable_string() if version >= 3 else None
    acks, timeout_ms = reader.int16(), reader.int32()
    topics = read_topics(reader, read_partition, bytes_min=_PARTITION_BYTES_MIN)
    return ProduceRequest(acks, timeout_ms, topics, transactional_id)


def write_answer(writer: Writer, answer: ProduceAnswer, version: int) -> None:
    def write_partition(found: ProducedPartition) -> None:
        writer.int32(found.partition)
        writer.int16(found.error)
        writer.int64(found.base_offset)
        if version >= 2:
            writer.int64(-1)  # log append time: records keep the time of their creation
        if version >= 5:
            writer.int64(found.log_start_offset)
        if version >= 8:
            writer.array((), writer.string)  # errors by record
            writer.string(found.message)

    write_topics(writer, answer.topics, write_partition)
    if version >= 1:
        writer.int32(0)  # throttle time
    writer.tags()
