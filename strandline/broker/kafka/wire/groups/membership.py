"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: what members of a group send."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    BOOL,
    BYTES,
    ERROR,
    GROUP,
    INT16,
    INT32,
    MEMBER,
    STRING,
    Array,
    Inline,
    One,
    Struct,
    inline,
    row,
    throttle,
)

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


_GENERATION: Final = INT32("generation_id", "generation")
_INSTANCE: Final = ("group_instance_id", "instance")
_OFFERED: Final = Struct(OfferedProtocol, STRING("name"), BYTES("metadata"))
JOIN_REQUEST: Final = Struct(
    JoinGroupRequest,
    GROUP,
    INT32("session_timeout_ms"),
    INT32("rebalance_timeout_ms", since=1, absent=None),
    MEMBER,
    STRING(*_INSTANCE, since=5, nullable=5),
    STRING("protocol_type"),
    row("protocols", Array(_OFFERED)),
    STRING("reason", since=8, nullable=8),
)
_JOINED: Final = Struct(
    MemberOfGeneration, MEMBER, STRING(*_INSTANCE, since=5, nullable=5), BYTES("metadata")
)
JOIN_ANSWER: Final = Struct(
    JoinGroupAnswer,
    throttle(since=2),
    ERROR,
    _GENERATION,
    STRING("protocol_type", since=7, nullable=7),
    STRING("protocol_name", "protocol", nullable=7),
    STRING("leader"),
    BOOL("skip_assignment", since=9),
    MEMBER,
    row("members", Array(_JOINED)),
)


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


_PROTOCOL: Final = (
    STRING("protocol_type", since=5, nullable=5),
    STRING("protocol_name", "protocol", since=5, nullable=5),
)
_ASSIGNED: Final = Struct(AssignedMember, MEMBER, BYTES("assignment"))
_STATIC: Final = STRING(*_INSTANCE, since=3, nullable=3)
SYNC_REQUEST: Final = Struct(
    SyncGroupRequest, GROUP, _GENERATION, MEMBER, _STATIC, *_PROTOCOL, row("assignments", Array(_ASSIGNED))
)
SYNC_ANSWER: Final = Struct(SyncGroupAnswer, throttle(since=1), ERROR, *_PROTOCOL, BYTES("assignment"))


# --- Heartbeat --------------------------------------------------------------------------------


class HeartbeatRequest(NamedTuple):
    group: str
    generation: int
    member: str
    instance: str | None = None


class HeartbeatAnswer(NamedTuple):
    error: int = 0


HEARTBEAT_REQUEST: Final = Struct(HeartbeatRequest, GROUP, _GENERATION, MEMBER, _STATIC)
HEARTBEAT_ANSWER: Final = Struct(HeartbeatAnswer, throttle(since=1), ERROR)


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


def _of_one(answer: LeaveGroupAnswer) -> int:
    return answer.error or next((each.error for each in answer.members), 0)


_ONE_LEAVES: Final = One(Inline(Struct(MemberThatLeaves, MEMBER)))
_LEAVES: Final = Struct(MemberThatLeaves, MEMBER, _STATIC, STRING("reason", since=5, nullable=5))
LEAVE_REQUEST: Final = Struct(
    LeaveGroupRequest, GROUP, inline("members", _ONE_LEAVES, until=2), row("members", Array(_LEAVES), since=3)
)
_LEFT: Final = Struct(MemberThatLeft, MEMBER, _STATIC, ERROR)
LEAVE_ANSWER: Final = Struct(
    LeaveGroupAnswer,
    throttle(since=1),
    INT16("error_code", "error", until=2, write=_of_one),
    INT16("error_code", "error", since=3),
    row("members", Array(_LEFT), since=3),
)
