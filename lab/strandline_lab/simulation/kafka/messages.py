"""The client's half of a few APIs of Kafka's protocol: requests to bytes, and answers from bytes.

Each API is spoken in its last plain version that clients use, or in a flexible one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from strandline.broker.kafka.wire.fetch import (
    FINAL_SESSION_EPOCH,
    FetchAnswer,
    FetchedPartition,
    FetchRequest,
    PartitionPosition,
)
from strandline.broker.kafka.wire.fields import Part, Reader, Writer
from strandline.broker.kafka.wire.metadata import (
    BrokerAddress,
    MetadataAnswer,
    MetadataRequest,
    PartitionFacts,
    TopicFacts,
    TopicWanted,
)
from strandline.broker.kafka.wire.offsets import (
    EpochEndsAnswer,
    EpochEndsRequest,
    PartitionEpoch,
    PartitionEpochEnd,
)
from strandline.broker.kafka.wire.produce import (
    PartitionRecords,
    ProduceAnswer,
    ProducedPartition,
    ProduceRequest,
)
from strandline.broker.kafka.wire.producer_id import InitProducerIdAnswer, InitProducerIdRequest
from strandline.broker.kafka.wire.topics import read_topics, write_topics

Request = TypeVar("Request")
Answer = TypeVar("Answer")

_CONSUMER: Final = -1
"""In the place of a follower's id."""
_UNKNOWN: Final = -1
_TRANSACTION_MS: Final = 60_000
_PARTITION_BYTES_MIN: Final = 4


@dataclass(frozen=True, slots=True)
class Api(Generic[Request, Answer]):
    """One API, and the two versions in which it is spoken."""

    key: int
    plain: int
    flexible: int
    write: Callable[[Writer, Request, int], None]
    read: Callable[[Reader, int], Answer]

    def version(self, *, flexible: bool) -> int:
        return self.flexible if flexible else self.plain


def frame(
    api: Api[Request, Answer], request: Request, *, flexible: bool, correlation: int, client: str
) -> bytes:
    """A whole request: length, header, body."""
    header = Writer()
    header.int16(api.key)
    header.int16(version := api.version(flexible=flexible))
    header.int32(correlation)
    header.string(client)
    body = Writer(flexible=flexible)
    body.tags()
    api.write(body, request, version)
    whole = b"".join([*header.parts(), *body.parts()])
    return len(whole).to_bytes(4, "big") + whole


def answer_in(api: Api[Request, Answer], data: Part, *, flexible: bool) -> Answer:
    """The answer in a frame, behind its correlation id. Raises MalformedRequest."""
    reader = Reader(data, flexible=flexible)
    reader.int32()
    reader.tags()
    return api.read(reader, api.version(flexible=flexible))


# --- Produce ----------------------------------------------------------------------------------


def _write_produce(writer: Writer, request: ProduceRequest, version: int) -> None:
    def write_partition(each: PartitionRecords) -> None:
        writer.int32(each.partition)
        writer.records(bytes(each.records or b""))

    writer.string(request.transactional_id)
    writer.int16(request.acks)
    writer.int32(request.timeout_ms)
    write_topics(writer, request.topics, write_partition)
    writer.tags()


def _read_produced(reader: Reader, version: int) -> ProduceAnswer:
    def read_record_error(reader: Reader) -> None:
        reader.int32()
        reader.nullable_string()
        reader.tags()

    def read_partition(reader: Reader) -> ProducedPartition:
        partition, error, base_offset = reader.int32(), reader.int16(), reader.int64()
        reader.int64()  # log append time
        log_start, message = reader.int64(), None
        if version >= 8:
            reader.array(read_record_error, bytes_min=_PARTITION_BYTES_MIN)
            message = reader.nullable_string()
        return ProducedPartition(partition, error, base_offset, log_start, message)

    return ProduceAnswer(read_topics(reader, read_partition, bytes_min=_PARTITION_BYTES_MIN))


# --- Fetch ------------------------------------------------------------------------------------


def _write_fetch(writer: Writer, request: FetchRequest, version: int) -> None:
    def write_partition(each: PartitionPosition) -> None:
        writer.int32(each.partition)
        writer.int32(each.leader_epoch)
        writer.int64(each.offset)
        if version >= 12:
            writer.int32(_UNKNOWN)  # the epoch of the last record that a follower fetched
        writer.int64(_UNKNOWN)  # the log start of a follower
        writer.int32(each.bytes_max)

    writer.int32(_CONSUMER)
    writer.int32(request.wait_ms)
    writer.int32(request.bytes_min)
    writer.int32(request.bytes_max)
    writer.int8(request.isolation_level)
    writer.int32(0)  # no session
    writer.int32(FINAL_SESSION_EPOCH)
    write_topics(writer, request.topics, write_partition)
    writer.array((), partial(write_topics, writer))  # topics that leave a session
    writer.string("")  # the client's rack
    writer.tags()


def _read_fetched(reader: Reader, version: int) -> FetchAnswer:
    def read_aborted(reader: Reader) -> None:
        reader.int64()
        reader.int64()
        reader.tags()

    def read_partition(reader: Reader) -> FetchedPartition:
        partition, error, watermark = reader.int32(), reader.int16(), reader.int64()
        stable, log_start = reader.int64(), reader.int64()
        reader.nullable_array(read_aborted, bytes_min=_PARTITION_BYTES_MIN)
        reader.int32()  # the replica to read from
        return FetchedPartition(
            partition, error, watermark, stable, log_start, bytes(reader.nullable_bytes() or b"")
        )

    reader.int32()  # throttle time
    error = reader.int16()
    reader.int32()  # the session
    return FetchAnswer(read_topics(reader, read_partition, bytes_min=_PARTITION_BYTES_MIN), error)


# --- Metadata ---------------------------------------------------------------------------------


def _write_metadata(writer: Writer, request: MetadataRequest, version: int) -> None:
    def write_topic(topic: TopicWanted) -> None:
        writer.string(topic.name)
        writer.tags()

    writer.array(request.topics, write_topic)
    writer.boolean(request.auto_create)
    writer.boolean(False)  # the operations that are allowed in the cluster
    writer.boolean(False)  # and on the topics
    writer.tags()


def _read_metadata(reader: Reader, version: int) -> MetadataAnswer:
    def read_broker(reader: Reader) -> BrokerAddress:
        found = BrokerAddress(reader.int32(), reader.string(), reader.int32(), reader.nullable_string())
        reader.tags()
        return found

    reader.int32()  # throttle time
    brokers = reader.array(read_broker, bytes_min=_PARTITION_BYTES_MIN)
    cluster, controller = reader.nullable_string(), reader.int32()
    return MetadataAnswer(
        brokers, cluster, controller, reader.array(_read_topic, bytes_min=_PARTITION_BYTES_MIN)
    )


def _read_topic(reader: Reader) -> TopicFacts:
    def read_ids(reader: Reader) -> tuple[int, ...]:
        return reader.array(Reader.int32, bytes_min=_PARTITION_BYTES_MIN)

    def read_partition(reader: Reader) -> PartitionFacts:
        error, partition, leader, epoch = reader.int16(), reader.int32(), reader.int32(), reader.int32()
        found = PartitionFacts(
            partition, error, leader, epoch, read_ids(reader), read_ids(reader), read_ids(reader)
        )
        reader.tags()
        return found

    error, name, internal = reader.int16(), reader.string(), reader.boolean()
    partitions = reader.array(read_partition, bytes_min=_PARTITION_BYTES_MIN)
    reader.int32()  # the allowed operations
    reader.tags()
    return TopicFacts(name, error, is_internal=internal, partitions=partitions)


# --- InitProducerId, OffsetForLeaderEpoch -----------------------------------------------------


def _write_identity(writer: Writer, request: InitProducerIdRequest, version: int) -> None:
    writer.string(request.transactional_id)
    writer.int32(_TRANSACTION_MS)
    writer.tags()


def _read_identity(reader: Reader, version: int) -> InitProducerIdAnswer:
    reader.int32()  # throttle time
    error = reader.int16()
    return InitProducerIdAnswer(reader.int64(), reader.int16(), error)


def _write_epochs(writer: Writer, request: EpochEndsRequest, version: int) -> None:
    def write_partition(each: PartitionEpoch) -> None:
        writer.int32(each.partition)
        writer.int32(each.current_epoch)
        writer.int32(each.epoch)

    writer.int32(_CONSUMER)
    write_topics(writer, request.topics, write_partition)
    writer.tags()


def _read_epoch_ends(reader: Reader, version: int) -> EpochEndsAnswer:
    def read_partition(reader: Reader) -> PartitionEpochEnd:
        error, partition = reader.int16(), reader.int32()
        return PartitionEpochEnd(partition, error, reader.int32(), reader.int64())

    reader.int32()  # throttle time
    return EpochEndsAnswer(read_topics(reader, read_partition, bytes_min=_PARTITION_BYTES_MIN))


PRODUCE: Final = Api(0, 7, 9, _write_produce, _read_produced)
FETCH: Final = Api(1, 11, 12, _write_fetch, _read_fetched)
METADATA: Final = Api(3, 8, 9, _write_metadata, _read_metadata)
INIT_PRODUCER_ID: Final = Api(22, 1, 2, _write_identity, _read_identity)
OFFSET_FOR_LEADER_EPOCH: Final = Api(23, 3, 4, _write_epochs, _read_epoch_ends)
