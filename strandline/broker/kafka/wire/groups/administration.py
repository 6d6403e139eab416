"""ListGroups, DescribeGroups and DeleteGroups: groups as administrators see them."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Steps, Writer
from strandline.broker.kafka.wire.metadata import OPERATIONS_UNKNOWN

_NAME_BYTES_MIN: Final = 1
"""Authorized operations of a group: not asked for, or not known."""

# --- ListGroups -------------------------------------------------------------------------------


CLASSIC: Final = "classic"
"""The type of every group: the other one is that of the next protocol (KIP-848)."""


class ListGroupsRequest(NamedTuple):
    """Only groups in one of these states, and of one of these types; empty: all groups."""

    states: tuple[str, ...]
    types: tuple[str, ...] = ()


class GroupInList(NamedTuple):
    group: str
    protocol_type: str
    state: str
    type: str = CLASSIC


class ListGroupsAnswer(NamedTuple):
    error: int = 0
    groups: tuple[GroupInList, ...] = ()


def read_list(reader: Reader, version: int) -> ListGroupsRequest:
    if version < 4:
        return ListGroupsRequest(())
    states = reader.array(Reader.string, bytes_min=_NAME_BYTES_MIN)
    types = reader.array(Reader.string, bytes_min=_NAME_BYTES_MIN) if version >= 5 else ()
    return ListGroupsRequest(states, types)


def write_list(writer: Writer, answer: ListGroupsAnswer, version: int) -> Steps:
    def write_group(group: GroupInList) -> None:
        writer.string(group.group)
        writer.string(group.protocol_type)
        if version >= 4:
            writer.string(group.state)
        if version >= 5:
            writer.string(group.type)
        writer.tags()

    if version >= 1:
        writer.throttle_time()
    writer.int16(answer.error)
    yield from writer.large_array(answer.groups, write_group)
    writer.tags()


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
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberDescription, ...] = ()
    operations: int = OPERATIONS_UNKNOWN


class DescribeGroupsAnswer(NamedTuple):
    groups: tuple[GroupDescription, ...]


def read_describe(reader: Reader, version: int) -> DescribeGroupsRequest:
    groups = reader.array(Reader.string, bytes_min=_NAME_BYTES_MIN)
    return DescribeGroupsRequest(groups, reader.boolean() if version >= 3 else False)


def write_describe(writer: Writer, answer: DescribeGroupsAnswer, version: int) -> Steps:
    def write_member(member: MemberDescription) -> None:
        writer.string(member.member)
        if version >= 4:
            writer.string(member.instance)
        writer.string(member.client_id)
        writer.string(member.host)
        writer.blob(member.metadata)
        writer.blob(member.assignment)
        writer.tags()

    if version >= 1:
        writer.throttle_time()
    writer.length(len(answer.groups))
    for group in answer.groups:
        writer.int16(group.error)
        writer.string(group.group)
        writer.string(group.state)
        writer.string(group.protocol_type)
        writer.string(group.protocol)
        yield from writer.large_array(group.members, write_member)
        yield
        if version >= 3:
            writer.int32(group.operations)
        writer.tags()
    writer.tags()


# --- DeleteGroups -----------------------------------------------------------------------------


class DeleteGroupsRequest(NamedTuple):
    groups: tuple[str, ...]


class GroupResult(NamedTuple):
    group: str
    error: int = 0


class DeleteGroupsAnswer(NamedTuple):
    groups: tuple[GroupResult, ...]


def read_delete(reader: Reader, version: int) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(reader.array(Reader.string, bytes_min=_NAME_BYTES_MIN))


def write_delete(writer: Writer, answer: DeleteGroupsAnswer, version: int) -> None:
    def write_group(result: GroupResult) -> None:
        writer.string(result.group)
        writer.int16(result.error)
        writer.tags()

    writer.throttle_time()
    writer.array(answer.groups, write_group)
    writer.tags()
