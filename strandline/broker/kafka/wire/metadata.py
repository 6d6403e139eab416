"""Metadata: brokers, topics, partitions and their leaders."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Steps, Writer

NO_TOPIC_ID: Final = "0" * 32
OPERATIONS_UNKNOWN: Final = -(2**31)
"""Authorized operations of a cluster or topic: not asked for, or not known."""


class TopicWanted(NamedTuple):
    """A topic by its name, or by its id if the name is None."""

    name: str | None
    topic_id: str = NO_TOPIC_ID


class MetadataRequest(NamedTuple):
    """`topics` None: all; empty: none. The last two ask for what the client may do (KIP-430)."""

    topics: tuple[TopicWanted, ...] | None
    auto_create: bool = True
    cluster_operations: bool = False
    topic_operations: bool = False


class BrokerAddress(NamedTuple):
    broker: int
    host: str
    port: int
    rack: str | None = None


class PartitionFacts(NamedTuple):
    partition: int
    error: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()


class TopicFacts(NamedTuple):
    """`name` is None only in answers about an id that no topic has."""

    name: str | None
    error: int = 0
    topic_id: str = NO_TOPIC_ID
    is_internal: bool = False
    partitions: tuple[PartitionFacts, ...] = ()
    operations: int = OPERATIONS_UNKNOWN


class MetadataAnswer(NamedTuple):
    brokers: tuple[BrokerAddress, ...]
    cluster_id: str | None
    controller: int
    topics: tuple[TopicFacts, ...]
    operations: int = OPERATIONS_UNKNOWN


def read_request(reader: Reader, version: int) -> MetadataRequest:
    def read_topic(reader: Reader) -> TopicWanted:
        if version >= 10:
            topic_id = reader.uuid()
            wanted = TopicWanted(reader.nullable_string(), topic_id)
        else:
            wanted = TopicWanted(reader.string())
        reader.tags()
        return wanted

    if version == 0:
        topics = reader.array(read_topic, bytes_min=2)
        return MetadataRequest(topics or None)
    wanted = reader.nullable_array(read_topic, bytes_min=2)
    auto_create = reader.boolean() if version >= 4 else True
    cluster_operations = reader.boolean() if 8 <= version <= 10 else False
    topic_operations = reader.boolean() if version >= 8 else False
    return MetadataRequest(wanted, auto_create, cluster_operations, topic_operations)


def write_answer(writer: Writer, answer: MetadataAnswer, version: int) -> Steps:
    def write_broker(broker: BrokerAddress) -> None:
        writer.int32(broker.broker)
        writer.string(broker.host)
        writer.int32(broker.port)
        if version >= 1:
            writer.string(broker.rack)
        writer.tags()

    if version >= 3:
        writer.throttle_time()
    writer.array(answer.brokers, write_broker)
    if version >= 2:
        writer.string(answer.cluster_id)
    if version >= 1:
        writer.int32(answer.controller)
    writer.length(len(answer.topics))
    for topic in answer.topics:
        yield from _write_topic(writer, topic, version)
        yield
    if 8 <= version <= 10:
        writer.int32(answer.operations)
    writer.tags()


def _write_topic(writer: Writer, topic: TopicFacts, version: int) -> Steps:
    def write_partition(partition: PartitionFacts) -> None:
        writer.int16(partition.error)
        writer.int32(partition.partition)
        writer.int32(partition.leader)
        if version >= 7:
            writer.int32(partition.leader_epoch)
        writer.array(partition.replicas, writer.int32)
        writer.array(partition.isr, writer.int32)
        if version >= 5:
            writer.array(partition.offline, writer.int32)
        writer.tags()

    writer.int16(topic.error)
    writer.string(topic.name if version >= 12 else topic.name or "")
    if version >= 10:
        writer.uuid(topic.topic_id)
    if version >= 1:
        writer.boolean(topic.is_internal)
    yield from writer.large_array(topic.partitions, write_partition)
    if version >= 8:
        writer.int32(topic.operations)
    writer.tags()
