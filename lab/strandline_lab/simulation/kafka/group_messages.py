"""The client's half of the APIs of consumer groups, as `messages.py` has others."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.coordinator import (
    FindCoordinatorAnswer,
    FindCoordinatorRequest,
    FoundCoordinator,
)
from strandline.broker.kafka.wire.fields import Reader, Writer
from strandline.broker.kafka.wire.groups.membership import (
    AssignedMember,
    HeartbeatAnswer,
    HeartbeatRequest,
    JoinGroupAnswer,
    JoinGroupRequest,
    LeaveGroupAnswer,
    LeaveGroupRequest,
    MemberOfGeneration,
    MemberThatLeaves,
    MemberThatLeft,
    OfferedProtocol,
    SyncGroupAnswer,
    SyncGroupRequest,
)
from strandline.broker.kafka.wire.groups.offsets import (
    OffsetCommitAnswer,
    OffsetCommitRequest,
    OffsetFetchAnswer,
    OffsetFetchRequest,
    OffsetsOfGroup,
    OffsetToCommit,
    PartitionOffset,
    PartitionResult,
)
from strandline.broker.kafka.wire.topics import OfTopic, read_topics, write_topics
from strandline_lab.simulation.kafka.messages import Api

_BYTES_MIN: Final = 2


def _write_find(writer: Writer, request: FindCoordinatorRequest, version: int) -> None:
    (key,) = request.keys
    writer.string(key)
    writer.int8(request.kind)
    writer.tags()


def _read_found(reader: Reader, version: int) -> FindCoordinatorAnswer:
    reader.int32()  # throttle time
    error, message = reader.int16(), reader.nullable_string()
    found = FoundCoordinator("", error, message, reader.int32(), reader.string(), reader.int32())
    return FindCoordinatorAnswer((found,))


# --- members ----------------------------------------------------------------------------------


def _write_join(writer: Writer, request: JoinGroupRequest, version: int) -> None:
    def write_protocol(each: OfferedProtocol) -> None:
        writer.string(each.name)
        writer.blob(each.metadata)
        writer.tags()

    writer.string(request.group)
    writer.int32(request.session_timeout_ms)
    writer.int32(request.rebalance_timeout_ms or 0)
    writer.string(request.member)
    writer.string(request.instance)
    writer.string(request.protocol_type)
    writer.array(request.protocols, write_protocol)
    writer.tags()


def _read_joined(reader: Reader, version: int) -> JoinGroupAnswer:
    def read_member(reader: Reader) -> MemberOfGeneration:
        member, instance = reader.string(), reader.nullable_string()
        found = MemberOfGeneration(member, reader.blob(), instance)
        reader.tags()
        return found

    reader.int32()  # throttle time
    error, generation = reader.int16(), reader.int32()
    kind = reader.nullable_string() if version >= 7 else None
    protocol, leader, member = reader.nullable_string(), reader.string(), reader.string()
    members = reader.array(read_member, bytes_min=_BYTES_MIN)
    return JoinGroupAnswer(error, generation, kind, protocol, leader, member, members)


def _write_sync(writer: Writer, request: SyncGroupRequest, version: int) -> None:
    def write_assigned(each: AssignedMember) -> None:
        writer.string(each.member)
        writer.blob(each.assignment)
        writer.tags()

    writer.string(request.group)
    writer.int32(request.generation)
    writer.string(request.member)
    writer.string(request.instance)
    if version >= 5:
        writer.string(request.protocol_type)
        writer.string(request.protocol)
    writer.array(request.assignments, write_assigned)
    writer.tags()


def _read_synced(reader: Reader, version: int) -> SyncGroupAnswer:
    reader.int32()  # throttle time
    error = reader.int16()
    kind = reader.nullable_string() if version >= 5 else None
    protocol = reader.nullable_string() if version >= 5 else None
    return SyncGroupAnswer(error, reader.blob(), kind, protocol)


def _write_heartbeat(writer: Writer, request: HeartbeatRequest, version: int) -> None:
    writer.string(request.group)
    writer.int32(request.generation)
    writer.string(request.member)
    writer.string(request.instance)
    writer.tags()


def _read_heartbeat(reader: Reader, version: int) -> HeartbeatAnswer:
    reader.int32()  # throttle time
    return HeartbeatAnswer(reader.int16())


def _write_leave(writer: Writer, request: LeaveGroupRequest, version: int) -> None:
    def write_member(each: MemberThatLeaves) -> None:
        writer.string(each.member)
        writer.string(each.instance)
        writer.tags()

    writer.string(request.group)
    writer.array(request.members, write_member)
    writer.tags()


def _read_left(reader: Reader, version: int) -> LeaveGroupAnswer:
    def read_member(reader: Reader) -> MemberThatLeft:
        left = MemberThatLeft(reader.string(), reader.nullable_string(), reader.int16())
        reader.tags()
        return left

    reader.int32()  # throttle time
    return LeaveGroupAnswer(reader.int16(), reader.array(read_member, bytes_min=_BYTES_MIN))


# --- offsets ----------------------------------------------------------------------------------


def _write_commit(writer: Writer, request: OffsetCommitRequest, version: int) -> None:
    def write_partition(each: OffsetToCommit) -> None:
        writer.int32(each.partition)
        writer.int64(each.offset)
        writer.int32(each.leader_epoch)
        writer.string(each.metadata)

    writer.string(request.group)
    writer.int32(request.generation)
    writer.string(request.member)
    writer.string(request.instance)
    write_topics(writer, request.topics, write_partition)
    writer.tags()


def _read_committed(reader: Reader, version: int) -> OffsetCommitAnswer:
    reader.int32()  # throttle time

    def read_partition(reader: Reader) -> PartitionResult:
        return PartitionResult(reader.int32(), reader.int16())

    return OffsetCommitAnswer(read_topics(reader, read_partition, bytes_min=_BYTES_MIN))


def _write_fetch(writer: Writer, request: OffsetFetchRequest, version: int) -> None:
    def write_topic(topic: OfTopic[int]) -> None:
        writer.string(topic.name)
        writer.array(topic.partitions, writer.int32)
        writer.tags()

    (wanted,) = request.groups
    writer.string(wanted.group)
    writer.array(wanted.topics, write_topic)
    if version >= 7:
        writer.boolean(True)  # it waits for the ends of transactions
    writer.tags()


def _read_offsets(reader: Reader, version: int) -> OffsetFetchAnswer:
    def read_partition(reader: Reader) -> PartitionOffset:
        partition, offset, epoch = reader.int32(), reader.int64(), reader.int32()
        return PartitionOffset(partition, offset, epoch, reader.nullable_string() or "", reader.int16())

    reader.int32()  # throttle time
    topics = read_topics(reader, read_partition, bytes_min=_BYTES_MIN)
    return OffsetFetchAnswer((OffsetsOfGroup("", topics, reader.int16()),))


OFFSET_COMMIT: Final = Api(8, 7, 8, _write_commit, _read_committed)
OFFSET_FETCH: Final = Api(9, 5, 7, _write_fetch, _read_offsets)
FIND_COORDINATOR: Final = Api(10, 2, 3, _write_find, _read_found)
JOIN_GROUP: Final = Api(11, 5, 7, _write_join, _read_joined)
HEARTBEAT: Final = Api(12, 3, 4, _write_heartbeat, _read_heartbeat)
LEAVE_GROUP: Final = Api(13, 3, 4, _write_leave, _read_left)
SYNC_GROUP: Final = Api(14, 3, 5, _write_sync, _read_synced)
