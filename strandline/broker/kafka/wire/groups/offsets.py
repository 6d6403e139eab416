"""OffsetCommit, OffsetFetch and OffsetDelete: the offsets that a group keeps."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Steps, Writer
from strandline.broker.kafka.wire.topics import OfTopic, Topics, read_topics, write_many_topics, write_topics

_COMMIT_BYTES_MIN: Final = 13
_NUMBER_BYTES: Final = 4
_TOPIC_BYTES_MIN: Final = 2
_GROUP_BYTES_MIN: Final = 2

# --- OffsetCommit -----------------------------------------------------------------------------


class OffsetToCommit(NamedTuple):
    """`leader_epoch` is -1 if the client does not know it."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class OffsetCommitRequest(NamedTuple):
    """An empty member in no generation: a client that is outside the group."""

    group: str
    generation: int
    member: str
    topics: Topics[OffsetToCommit]
    instance: str | None = None


class PartitionResult(NamedTuple):
    partition: int
    error: int = 0


class OffsetCommitAnswer(NamedTuple):
    topics: Topics[PartitionResult]


def read_commit(reader: Reader, version: int) -> OffsetCommitRequest:
    def read_partition(reader: Reader) -> OffsetToCommit:
        partition, offset = reader.int32(), reader.int64()
        epoch = reader.int32() if version >= 6 else -1
        return OffsetToCommit(partition, offset, epoch, reader.nullable_string())

    group, generation, member = reader.string(), reader.int32(), reader.string()
    instance = reader.nullable_string() if version >= 7 else None
    if version <= 4:
        reader.int64()  # how long to keep the offsets: the broker's setting decides
    topics = read_topics(reader, read_partition, bytes_min=_COMMIT_BYTES_MIN)
    return OffsetCommitRequest(group, generation, member, topics, instance)


def write_commit(writer: Writer, answer: OffsetCommitAnswer, version: int) -> None:
    if version >= 3:
        writer.throttle_time()
    _write_results(writer, answer.topics)
    writer.tags()


def _write_results(writer: Writer, topics: Topics[PartitionResult]) -> None:
    def write_partition(result: PartitionResult) -> None:
        writer.int32(result.partition)
        writer.int16(result.error)

    write_topics(writer, topics, write_partition)


# --- OffsetFetch ------------------------------------------------------------------------------


class GroupWanted(NamedTuple):
    """Numbers of partitions by topic; None: every partition with an offset."""

    group: str
    topics: Topics[int] | None


class OffsetFetchRequest(NamedTuple):
    """One group before version 8, any number from there on."""

    groups: tuple[GroupWanted, ...]


class PartitionOffset(NamedTuple):
    """`offset` is -1 if none was committed."""

    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: int = 0


class OffsetsOfGroup(NamedTuple):
    """`error` is for the whole group. Clients of version 1 find it at each partition."""

    group: str
    topics: Topics[PartitionOffset] = ()
    error: int = 0


class OffsetFetchAnswer(NamedTuple):
    groups: tuple[OffsetsOfGroup, ...]


def read_fetch(reader: Reader, version: int) -> OffsetFetchRequest:
    def read_topic(reader: Reader) -> OfTopic[int]:
        topic = OfTopic(reader.string(), reader.array(Reader.int32, bytes_min=_NUMBER_BYTES))
        reader.tags()
        return topic

    def read_group(reader: Reader) -> GroupWanted:
        wanted = GroupWanted(reader.string(), reader.nullable_array(read_topic, bytes_min=_TOPIC_BYTES_MIN))
        reader.tags()
        return wanted

    if version >= 8:
        groups = reader.array(read_group, bytes_min=_GROUP_BYTES_MIN)
    else:
        group = reader.string()
        read_all = reader.nullable_array if version >= 2 else reader.array
        groups = (GroupWanted(group, read_all(read_topic, bytes_min=_TOPIC_BYTES_MIN)),)
    if version >= 7:
        reader.boolean()  # whether to wait for the ends of transactions: there are none
    return OffsetFetchRequest(groups)


def write_fetch(writer: Writer, answer: OffsetFetchAnswer, version: int) -> Steps:
    def write_partition(found: PartitionOffset) -> None:
        writer.int32(found.partition)
        writer.int64(found.offset)
        if version >= 5:
            writer.int32(found.leader_epoch)
        writer.string(found.metadata)
        writer.int16(found.error)

    if version >= 3:
        writer.throttle_time()
    if version >= 8:
        writer.length(len(answer.groups))
        for group in answer.groups:
            writer.string(group.group)
            yield from write_many_topics(writer, group.topics, write_partition)
            writer.int16(group.error)
            writer.tags()
    else:
        (group,) = answer.groups
        yield from write_many_topics(writer, group.topics, write_partition)
        if version >= 2:
            writer.int16(group.error)
    writer.tags()


# --- OffsetDelete -----------------------------------------------------------------------------


class OffsetDeleteRequest(NamedTuple):
    """Numbers of partitions by topic."""

    group: str
    topics: Topics[int]


class OffsetDeleteAnswer(NamedTuple):
    """`error` is for the whole group; then there are no topics."""

    error: int = 0
    topics: Topics[PartitionResult] = ()


def read_delete(reader: Reader, version: int) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(reader.string(), read_topics(reader, Reader.int32, bytes_min=_NUMBER_BYTES))


def write_delete(writer: Writer, answer: OffsetDeleteAnswer, version: int) -> None:
    writer.int16(answer.error)
    writer.throttle_time()
    _write_results(writer, answer.topics)
