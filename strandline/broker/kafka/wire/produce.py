"""Produce: batches to append."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Writer
from strandline.broker.kafka.wire.leaders import CurrentLeader, endpoint_tags, leader_tags
from strandline.broker.kafka.wire.metadata import BrokerAddress
from strandline.broker.kafka.wire.topics import OfTopic, Topics, read_topics

LEADERS_SINCE: Final = 10
"""The first version whose answers name leaders."""
_PARTITION_BYTES_MIN: Final = 5


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
    """`base_offset` is -1 with an error. `message` goes to clients from version 8 on, `leader` from 10 on."""

    partition: int
    error: int = 0
    base_offset: int = -1
    log_start_offset: int = -1
    message: str | None = None
    leader: CurrentLeader | None = None
    wrong: tuple[int, ...] = ()
    """Positions in the batch of the records that it was refused for (KIP-467)."""


class ProduceAnswer(NamedTuple):
    """`endpoints`: the addresses of the leaders that it names."""

    topics: Topics[ProducedPartition]
    endpoints: tuple[BrokerAddress, ...] = ()


def read_request(reader: Reader, version: int) -> ProduceRequest:
    def read_partition(reader: Reader) -> PartitionRecords:
        return PartitionRecords(reader.int32(), reader.nullable_bytes())

    transactional_id = reader.nullable_string() if version >= 3 else None
    acks, timeout_ms = reader.int16(), reader.int32()
    topics = read_topics(reader, read_partition, bytes_min=_PARTITION_BYTES_MIN)
    return ProduceRequest(acks, timeout_ms, topics, transactional_id)


def write_answer(writer: Writer, answer: ProduceAnswer, version: int) -> None:
    def write_wrong(position: int) -> None:
        writer.int32(position)
        writer.string(None)  # the message of the batch says it for all
        writer.tags()

    def write_partition(found: ProducedPartition) -> None:
        writer.int32(found.partition)
        writer.int16(found.error)
        writer.int64(found.base_offset)
        if version >= 2:
            writer.int64(-1)  # log append time: records keep the time of their creation
        if version >= 5:
            writer.int64(found.log_start_offset)
        if version >= 8:
            writer.array(found.wrong, write_wrong)
            writer.string(found.message)
        writer.tags(leader_tags(0, found.leader) if version >= LEADERS_SINCE else ())

    def write_topic(topic: OfTopic[ProducedPartition]) -> None:
        writer.string(topic.name)
        writer.array(topic.partitions, write_partition)
        writer.tags()

    writer.array(answer.topics, write_topic)
    if version >= 1:
        writer.throttle_time()
    writer.tags(endpoint_tags(0, answer.endpoints) if version >= LEADERS_SINCE else ())
