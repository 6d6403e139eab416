"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: what members of a group send."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Writer

_NAMED_BYTES_MIN: Final = 2
"""Of a structure that begins with two strings, or with a string and bytes."""

NO_GENERATION: Final = -1

# --- JoinGroup --------------------------------------------------------------------------------


class OfferedProtocol(NamedTuple):
    """`metadata` is for the leader; only members understand it."""

    name: str
    metadata: bytes


class JoinGroupRequest(NamedTuple):
    """`rebalance_timeout_ms` is None before version 1. `protocols` are in order of preference."""

    group: str
    session_timeout_ms: int
    rebalance_timeout_ms: int | None
    member: str
    protocol_type: str
    protocols: tuple[OfferedProtocol, ...]
    instance: str | None = None
    reason: str | None = None


class MemberOfGeneration(NamedTuple):
    member: str
    metadata: bytes
    instance: str | None = None


class JoinGroupAnswer(NamedTuple):
    """`members` is for the leader alone. With an error, only `member` may say something. A leader that is to
    `skip_assignment` learns it from version 9 on."""

    error: int = 0
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    member: str = ""
    members: tuple[MemberOfGeneration, ...] = ()
    skip_assignment: bool = False


def read_join(reader: Reader, version: int) -> JoinGroupRequest:
    def read_protocol(reader: Reader) -> OfferedProtocol:
        protocol = OfferedProtocol(reader.string(), reader.blob())
        reader.tags()
        return protocol

    group, session_timeout_ms = reader.string(), reader.int32()
    rebalance_timeout_ms = reader.int32() if version >= 1 else None
    member = reader.string()
    instance = reader.nullable_string() if version >= 5 else None
    return JoinGroupRequest(
        group,
        session_timeout_ms,
        rebalance_timeout_ms,
        member,
        reader.string(),
        reader.array(read_protocol, bytes_min=_NAMED_BYTES_MIN),
        instance,
        reader.nullable_string() if version >= 8 else None,
    )


def write_join(writer: Writer, answer: JoinGroupAnswer, version: int) -> None:
    def write_member(member: MemberOfGeneration) -> None:
        writer.string(member.member)
        if version >= 5:
            writer.string(member.instance)
        writer.blob(member.metadata)
        writer.tags()

    if version >= 2:
        writer.throttle_time()
    writer.int16(answer.error)
    writer.int32(answer.generation)
    if version >= 7:
        writer.string(answer.protocol_type)
        writer.string(answer.protocol)
    else:
        writer.string(answer.protocol or "")
    writer.string(answer.leader)
    if version >= 9:
        writer.boolean(answer.skip_assignment)
    writer.string(answer.member)
    writer.array(answer.members, write_member)
    writer.tags()


# --- SyncGroup --------------------------------------------------------------------------------


class AssignedMember(NamedTuple):
    member: str
    assignment: bytes


class SyncGroupRequest(NamedTuple):
    """`assignments` come from the leader. Protocol and type are None before version 5."""

    group: str
    generation: int
    member: str
    assignments: tuple[AssignedMember, ...]
    instance: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None


class SyncGroupAnswer(NamedTuple):
    error: int = 0
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


def read_sync(reader: Reader, version: int) -> SyncGroupRequest:
    def read_assigned(reader: Reader) -> AssignedMember:
        assigned = AssignedMember(reader.string(), reader.blob())
        reader.tags()
        return assigned

    group, generation, member = reader.string(), reader.int32(), reader.string()
    instance = reader.nullable_string() if version >= 3 else None
    protocol_type = reader.nullable_string() if version >= 5 else None
    protocol = reader.nullable_string() if version >= 5 else None
    assignments = reader.array(read_assigned, bytes_min=_NAMED_BYTES_MIN)
    return SyncGroupRequest(group, generation, member, assignments, instance, protocol_type, protocol)


def write_sync(writer: Writer, answer: SyncGroupAnswer, version: int) -> None:
    if version >= 1:
        writer.throttle_time()
    writer.int16(answer.error)
    if version >= 5:
        writer.string(answer.protocol_type)
        writer.string(answer.protocol)
    writer.blob(answer.assignment)
    writer.tags()


# --- Heartbeat --------------------------------------------------------------------------------


class HeartbeatRequest(NamedTuple):
    group: str
    generation: int
    member: str
    instance: str | None = None


class HeartbeatAnswer(NamedTuple):
    error: int = 0


def read_heartbeat(reader: Reader, version: int) -> HeartbeatRequest:
    group, generation, member = reader.string(), reader.int32(), reader.string()
    return HeartbeatRequest(group, generation, member, reader.nullable_string() if version >= 3 else None)


def write_heartbeat(writer: Writer, answer: HeartbeatAnswer, version: int) -> None:
    if version >= 1:
        writer.throttle_time()
    writer.int16(answer.error)
    writer.tags()


# --- LeaveGroup -------------------------------------------------------------------------------


class MemberThatLeaves(NamedTuple):
    """Named by its id, or by its instance and an empty id."""

    member: str
    instance: str | None = None
    reason: str | None = None


class LeaveGroupRequest(NamedTuple):
    """One member before version 3, any number from there on."""

    group: str
    members: tuple[MemberThatLeaves, ...]


class MemberThatLeft(NamedTuple):
    member: str
    instance: str | None = None
    error: int = 0


class LeaveGroupAnswer(NamedTuple):
    """`error` is for the whole request. Clients before version 3 get it in the place of the member's."""

    error: int = 0
    members: tuple[MemberThatLeft, ...] = ()


def read_leave(reader: Reader, version: int) -> LeaveGroupRequest:
    def read_member(reader: Reader) -> MemberThatLeaves:
        member, instance = reader.string(), reader.nullable_string()
        leaves = MemberThatLeaves(member, instance, reader.nullable_string() if version >= 5 else None)
        reader.tags()
        return leaves

    group = reader.string()
    if version < 3:
        return LeaveGroupRequest(group, (MemberThatLeaves(reader.string()),))
    return LeaveGroupRequest(group, reader.array(read_member, bytes_min=_NAMED_BYTES_MIN))


def write_leave(writer: Writer, answer: LeaveGroupAnswer, version: int) -> None:
    def write_member(left: MemberThatLeft) -> None:
        writer.string(left.member)
        writer.string(left.instance)
        writer.int16(left.error)
        writer.tags()

    if version >= 1:
        writer.throttle_time()
    if version >= 3:
        writer.int16(answer.error)
        writer.array(answer.members, write_member)
    else:
        writer.int16(answer.error or next((each.error for each in answer.members), 0))
    writer.tags()
