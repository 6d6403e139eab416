"""ListGroups, DescribeGroups and DeleteGroups: groups as administrators see them."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.metadata import OPERATIONS_UNKNOWN
from strandline.broker.kafka.wire.table.rows import (
    BOOL,
    BYTES,
    ERROR,
    GROUP,
    INT32,
    MEMBER,
    STRING,
    Array,
    Struct,
    row,
    throttle,
)

# --- ListGroups -------------------------------------------------------------------------------


class ListGroupsRequest(NamedTuple):
    """Only groups in one of these states, and of one of these types; empty: all groups."""

    states: tuple[str, ...]
    types: tuple[str, ...] = ()


class GroupInList(NamedTuple):
    group: str
    protocol_type: str
    state: str
    type: str = "classic"


class ListGroupsAnswer(NamedTuple):
    error: int = 0
    groups: tuple[GroupInList, ...] = ()


LIST_REQUEST: Final = Struct(
    ListGroupsRequest,
    row("states_filter", Array(STRING), "states", since=4, absent=()),
    row("types_filter", Array(STRING), "types", since=5),
)
_LISTED: Final = Struct(
    GroupInList,
    GROUP,
    STRING("protocol_type"),
    STRING("group_state", "state", since=4, absent=""),
    STRING("group_type", "type", since=5),
)
LIST_ANSWER: Final = Struct(
    ListGroupsAnswer, throttle(since=1), ERROR, row("groups", Array(_LISTED, large=True))
)


# --- DescribeGroups ---------------------------------------------------------------------------


class DescribeGroupsRequest(NamedTuple):
    """`operations` asks for what the client may do with each group (KIP-430)."""

    groups: tuple[str, ...]
    operations: bool = False


class MemberDescription(NamedTuple):
    member: str
    instance: str | None
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    group: str
    error: int = 0
    message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberDescription, ...] = ()
    operations: int = OPERATIONS_UNKNOWN


class DescribeGroupsAnswer(NamedTuple):
    groups: tuple[GroupDescription, ...]


DESCRIBE_REQUEST: Final = Struct(
    DescribeGroupsRequest,
    row("groups", Array(STRING)),
    BOOL("include_authorized_operations", "operations", since=3),
)
_MEMBER: Final = Struct(
    MemberDescription,
    MEMBER,
    STRING("group_instance_id", "instance", since=4, nullable=4, absent=None),
    STRING("client_id"),
    STRING("client_host", "host"),
    BYTES("member_metadata", "metadata"),
    BYTES("member_assignment", "assignment"),
)
_GROUP: Final = Struct(
    GroupDescription,
    ERROR,
    STRING("error_message", "message", since=6, nullable=6),
    GROUP,
    STRING("group_state", "state"),
    STRING("protocol_type"),
    STRING("protocol_data", "protocol"),
    row("members", Array(_MEMBER, large=True)),
    INT32("authorized_operations", "operations", since=3),
)
DESCRIBE_ANSWER: Final = Struct(DescribeGroupsAnswer, throttle(since=1), row("groups", Array(_GROUP)))


# --- DeleteGroups -----------------------------------------------------------------------------


class DeleteGroupsRequest(NamedTuple):
    groups: tuple[str, ...]


class GroupResult(NamedTuple):
    group: str
    error: int = 0
    message: str | None = None


class DeleteGroupsAnswer(NamedTuple):
    groups: tuple[GroupResult, ...]


DELETE_REQUEST: Final = Struct(DeleteGroupsRequest, row("groups_names", Array(STRING), "groups"))
_DELETED: Final = Struct(GroupResult, GROUP, ERROR, STRING("error_message", "message", since=3, nullable=3))
DELETE_ANSWER: Final = Struct(DeleteGroupsAnswer, throttle(), row("results", Array(_DELETED), "groups"))
