"""ListOffsets: offsets by time. OffsetForLeaderEpoch: where the records of an epoch end."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Writer
from strandline.broker.kafka.wire.topics import Topics, read_topics, write_topics

_TIME_BYTES_MIN: Final = 12
_EPOCH_BYTES_MIN: Final = 12

# --- ListOffsets ------------------------------------------------------------------------------


class PartitionTime(NamedTuple):
    """`timestamp_ms`: milliseconds since the Unix epoch; -1: the end, -2: the start, others below are
    Kafka's. `leader_epoch` is -1 if the client does not know it."""

    partition: int
    leader_epoch: int
    timestamp_ms: int


class ListOffsetsRequest(NamedTuple):
    topics: Topics[PartitionTime]


class OffsetAtTime(NamedTuple):
    partition: int
    error: int = 0
    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


class ListOffsetsAnswer(NamedTuple):
    topics: Topics[OffsetAtTime]


def read_list_offsets(reader: Reader, version: int) -> ListOffsetsRequest:
    def read_partition(reader: Reader) -> PartitionTime:
        partition = reader.int32()
        epoch = reader.int32() if version >= 4 else -1
        return PartitionTime(partition, epoch, reader.int64())

    reader.int32()  # the id of a follower
    if version >= 2:
        reader.int8()  # isolation level: without transactions all committed records are stable
    return ListOffsetsRequest(read_topics(reader, read_partition, bytes_min=_TIME_BYTES_MIN))


def write_list_offsets(writer: Writer, answer: ListOffsetsAnswer, version: int) -> None:
    def write_partition(found: OffsetAtTime) -> None:
        writer.int32(found.partition)
        writer.int16(found.error)
        writer.int64(found.timestamp_ms)
        writer.int64(found.offset)
        if version >= 4:
            writer.int32(found.leader_epoch)

    if version >= 2:
        writer.throttle_time()
    write_topics(writer, answer.topics, write_partition)
    writer.tags()


# --- OffsetForLeaderEpoch ---------------------------------------------------------------------


class PartitionEpoch(NamedTuple):
    """`current_epoch`: the leader's epoch as far as the client knows it, or -1; `epoch`: the one that it asks
    about."""

    partition: int
    current_epoch: int
    epoch: int


class EpochEndsRequest(NamedTuple):
    topics: Topics[PartitionEpoch]


class PartitionEpochEnd(NamedTuple):
    """The largest epoch up to the requested one, and the offset at which it ends; -1 and -1 for none."""

    partition: int
    error: int = 0
    epoch: int = -1
    end_offset: int = -1


class EpochEndsAnswer(NamedTuple):
    topics: Topics[PartitionEpochEnd]


def read_epoch_ends(reader: Reader, version: int) -> EpochEndsRequest:
    def read_partition(reader: Reader) -> PartitionEpoch:
        return PartitionEpoch(reader.int32(), reader.int32(), reader.int32())

    if version >= 3:
        reader.int32()  # the id of a follower
    return EpochEndsRequest(read_topics(reader, read_partition, bytes_min=_EPOCH_BYTES_MIN))


def write_epoch_ends(writer: Writer, answer: EpochEndsAnswer, version: int) -> None:
    def write_partition(found: PartitionEpochEnd) -> None:
        writer.int16(found.error)
        writer.int32(found.partition)
        writer.int32(found.epoch)
        writer.int64(found.end_offset)

    writer.throttle_time()
    write_topics(writer, answer.topics, write_partition)
    writer.tags()
