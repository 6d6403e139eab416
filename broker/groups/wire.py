"""The RPCs of `strandline.v1.Groups`, from a broker's side: between bytes and the values of
`strandline.vocabulary.groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final, TypeVar

from google.protobuf.message import Message

from strandline.adapters.rpc.listeners import endpoint_to_wire
from strandline.adapters.rpc.parsing import parse
from strandline.adapters.rpc.wire_errors import error_to_wire
from strandline.config import GROUP_REQUEST_ELEMENTS_MAX
from strandline.errors import InvalidRequest, MemberIdRequired, StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Request, Response, Rpc
from strandline.rpc import common_pb2, group_pb2
from strandline.vocabulary.groups import (
    CommittedOffset,
    DescribedGroup,
    FetchedOffsets,
    GroupProtocol,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    LeftMember,
    ListedGroup,
    MemberIdGiven,
    OffsetCommit,
    OffsetFetch,
    OffsetResults,
    OwnershipChange,
    OwnershipKind,
    ReportOwnership,
    ReportTasks,
    SyncGroup,
    TaskChange,
    TaskChangeKind,
)
from strandline.vocabulary.metadata import Endpoint

Element = TypeVar("Element")

_KINDS: Final = {
    group_pb2.OwnershipChange.ASSIGNED: OwnershipKind.ASSIGNED,
    group_pb2.OwnershipChange.REVOKED: OwnershipKind.REVOKED,
    group_pb2.OwnershipChange.LOST: OwnershipKind.LOST,
}
_TASK_KINDS: Final = {group_pb2.TaskChange.Kind.Value(kind.name): kind for kind in TaskChangeKind}


def _bounded(what: str, elements: Sequence[Element]) -> Sequence[Element]:
    """The elements, if there are not too many: they are counted before any is read."""
    if len(elements) > GROUP_REQUEST_ELEMENTS_MAX:
        raise _too_many(what, len(elements))
    return elements


def _too_many(what: str, count: int) -> InvalidRequest:
    most = GROUP_REQUEST_ELEMENTS_MAX
    return InvalidRequest(f"{count} {what} in one request, more than {most}", limit=most)


def _names(partitions: Iterable[group_pb2.GroupPartition]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(p.topic, p.partition) for p in partitions)


def _partitions(names: Sequence[TopicPartition]) -> list[group_pb2.GroupPartition]:
    return [group_pb2.GroupPartition(topic=topic, partition=partition) for topic, partition in names]


def _error(error: StrandlineError | None) -> common_pb2.Error | None:
    return None if error is None else error_to_wire(error)


# --- membership ---------------------------------------------------------------------------------


def _find(data: bytes) -> str:
    return parse(group_pb2.FindCoordinatorRequest, data).group


def _found(end: Endpoint) -> bytes:
    return group_pb2.FindCoordinatorResponse(coordinator=endpoint_to_wire(end)).SerializeToString()


def _join(data: bytes) -> JoinGroup:
    request = parse(group_pb2.JoinGroupRequest, data)
    return JoinGroup(
        request.group,
        request.member,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.protocol_type,
        tuple(GroupProtocol(p.name, p.metadata) for p in _bounded("protocols", request.protocols)),
        request.instance or None,
        request.client_id,
        request.reason,
    )


def _joined(answer: Joined | MemberIdGiven) -> bytes:
    if isinstance(answer, MemberIdGiven):
        error = MemberIdRequired(f"join again as member {answer.member}")
        return group_pb2.JoinGroupResponse(
            error=error_to_wire(error), member=answer.member
        ).SerializeToString()
    return group_pb2.JoinGroupResponse(
        member=answer.member,
        generation=answer.generation,
        protocol=answer.protocol,
        leader=answer.leader,
        members=[
            group_pb2.GroupMember(member=m.member, instance=m.instance or "", metadata=m.metadata)
            for m in answer.members
        ],
        skip_assignment=answer.skip_assignment,
        reason=answer.reason,
        caused_by=answer.caused_by,
    ).SerializeToString()


def _sync(data: bytes) -> SyncGroup:
    request = parse(group_pb2.SyncGroupRequest, data)
    assignments = {a.member: a.assignment for a in _bounded("assignments", request.assignments)}
    if len(assignments) != len(request.assignments):
        raise InvalidRequest("a member stands more than once among the assignments")
    return SyncGroup(
        request.group,
        request.member,
        request.generation,
        request.protocol_type,
        request.protocol,
        assignments,
        request.instance or None,
    )


def _synced(assignment: bytes) -> bytes:
    return group_pb2.SyncGroupResponse(assignment=assignment).SerializeToString()


def _heartbeat(data: bytes) -> Heartbeat:
    request = parse(group_pb2.HeartbeatRequest, data)
    return Heartbeat(
        request.group, request.member, request.generation, request.instance or None, request.max_wait_ms
    )


def _leave(data: bytes) -> LeaveGroup:
    request = parse(group_pb2.LeaveGroupRequest, data)
    return LeaveGroup(
        request.group,
        tuple(
            LeavingMember(m.member, m.instance or None, m.reason)
            for m in _bounded("members", request.members)
        ),
    )


def _left(members: Sequence[LeftMember]) -> bytes:
    return group_pb2.LeaveGroupResponse(
        members=[group_pb2.LeftMember(member=m.member, error=_error(m.error)) for m in members]
    ).SerializeToString()


# --- offsets ------------------------------------------------------------------------------------


def _commit(data: bytes) -> OffsetCommit:
    request = parse(group_pb2.OffsetCommitRequest, data)
    return OffsetCommit(
        request.group,
        request.member,
        request.generation,
        {
            TopicPartition(o.topic, o.partition): CommittedOffset(o.offset, o.leader_epoch, o.metadata)
            for o in _bounded("offsets", request.offsets)
        },
        request.instance or None,
    )


def _committed(results: OffsetResults) -> bytes:
    return group_pb2.OffsetCommitResponse(
        results=[
            group_pb2.OffsetResult(topic=topic, partition=partition, error=_error(error))
            for (topic, partition), error in results.items()
        ]
    ).SerializeToString()


def _offset_fetch(data: bytes) -> OffsetFetch:
    request = parse(group_pb2.OffsetFetchRequest, data)
    return OffsetFetch(
        request.group, None if request.all else _names(_bounded("partitions", request.partitions))
    )


def _fetched(offsets: FetchedOffsets) -> bytes:
    response = group_pb2.OffsetFetchResponse()
    for (topic, partition), committed in offsets.items():
        if committed is None:
            response.offsets.add(
                topic=topic, partition=partition, offset=-1, leader_epoch=-1, committed_at_ms=-1
            )
        else:
            response.offsets.add(
                topic=topic,
                partition=partition,
                offset=committed.offset,
                leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                committed_at_ms=committed.committed_at_ms,
            )
    return response.SerializeToString()


# --- ownership and administration ---------------------------------------------------------------


def _change(change: group_pb2.OwnershipChange) -> OwnershipChange:
    kind = _KINDS.get(change.kind)
    if kind is None:
        raise InvalidRequest(f"ownership change of kind {change.kind}; known are 0 to {max(_KINDS)}")
    names = _names(change.partitions)
    for name in names:
        if not name.topic or name.partition < 0:
            raise InvalidRequest(f"ownership change of {name}, which is no partition's name")
    return OwnershipChange(kind, names, change.at_ms, change.generation, change.reason)


def _report(data: bytes) -> ReportOwnership:
    request = parse(group_pb2.ReportOwnershipRequest, data)
    changes = _bounded("changes", request.changes)
    named = sum(len(change.partitions) for change in changes)
    if named > GROUP_REQUEST_ELEMENTS_MAX:
        raise _too_many("partitions", named)
    return ReportOwnership(
        request.group,
        request.member,
        request.generation,
        tuple(map(_change, changes)),
    )


def _task_change(change: group_pb2.TaskChange) -> TaskChange:
    kind = _TASK_KINDS.get(change.kind)
    if kind is None:
        raise InvalidRequest(f"task change of kind {change.kind}; known are 0 to {max(_TASK_KINDS)}")
    return TaskChange(
        kind,
        change.task,
        change.at_ms,
        change.reason,
        change.lag if change.HasField("lag") and change.lag >= 0 else -1,
        # Neither NaN nor infinity: JSON has no word for them.
        change.records_per_s if change.HasField("records_per_s") and 0 <= change.records_per_s < inf else -1,
        change.remaining_ms if change.HasField("remaining_ms") and change.remaining_ms >= 0 else -1,
    )


def _task_report(data: bytes) -> ReportTasks:
    request = parse(group_pb2.ReportTasksRequest, data)
    return ReportTasks(
        request.group,
        request.member,
        request.generation,
        tuple(map(_task_change, _bounded("changes", request.changes))),
    )


def _list(data: bytes) -> None:
    parse(group_pb2.ListGroupsRequest, data)


def _listed(groups: Sequence[ListedGroup]) -> bytes:
    return group_pb2.ListGroupsResponse(
        groups=[
            group_pb2.ListedGroup(group=g.group, protocol_type=g.protocol_type, state=g.state) for g in groups
        ]
    ).SerializeToString()


def _describe(data: bytes) -> str:
    return parse(group_pb2.DescribeGroupRequest, data).group


def _described(group: DescribedGroup) -> bytes:
    return group_pb2.DescribeGroupResponse(
        group=group.group,
        state=group.state,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        members=[
            group_pb2.DescribedMember(
                member=m.member,
                instance=m.instance or "",
                client_id=m.client_id,
                host=m.host,
                metadata=m.metadata,
                assignment=m.assignment,
                owned=_partitions(m.owned),
            )
            for m in group.members
        ],
        reason=group.reason,
        caused_by=group.caused_by,
    ).SerializeToString()


def _delete(data: bytes) -> str:
    return parse(group_pb2.DeleteGroupRequest, data).group


# --- the service --------------------------------------------------------------------------------


def _rpc(
    name: str,
    decode: Callable[[bytes], Request],
    encode: Callable[[Response], bytes],
    response: Callable[..., Message],
) -> Rpc[Request, Response]:
    """All answers of this service have a place for an error, of bytes that are no request too."""

    def refuse(error: StrandlineError) -> bytes:
        return response(error=error_to_wire(error)).SerializeToString()

    return Rpc(f"/strandline.v1.Groups/{name}", decode, encode, refuse, refuses_malformed=True)


def _nothing(response: Callable[[], Message]) -> Callable[[None], bytes]:
    return lambda _: response().SerializeToString()


FIND_COORDINATOR: Final = _rpc("FindCoordinator", _find, _found, group_pb2.FindCoordinatorResponse)
JOIN_GROUP: Final = _rpc("JoinGroup", _join, _joined, group_pb2.JoinGroupResponse)
SYNC_GROUP: Final = _rpc("SyncGroup", _sync, _synced, group_pb2.SyncGroupResponse)
HEARTBEAT: Final = _rpc(
    "Heartbeat", _heartbeat, _nothing(group_pb2.HeartbeatResponse), group_pb2.HeartbeatResponse
)
LEAVE_GROUP: Final = _rpc("LeaveGroup", _leave, _left, group_pb2.LeaveGroupResponse)
OFFSET_COMMIT: Final = _rpc("OffsetCommit", _commit, _committed, group_pb2.OffsetCommitResponse)
OFFSET_FETCH: Final = _rpc("OffsetFetch", _offset_fetch, _fetched, group_pb2.OffsetFetchResponse)
REPORT_OWNERSHIP: Final = _rpc(
    "ReportOwnership",
    _report,
    _nothing(group_pb2.ReportOwnershipResponse),
    group_pb2.ReportOwnershipResponse,
)
REPORT_TASKS: Final = _rpc(
    "ReportTasks",
    _task_report,
    _nothing(group_pb2.ReportTasksResponse),
    group_pb2.ReportTasksResponse,
)
LIST_GROUPS: Final = _rpc("ListGroups", _list, _listed, group_pb2.ListGroupsResponse)
DESCRIBE_GROUP: Final = _rpc("DescribeGroup", _describe, _described, group_pb2.DescribeGroupResponse)
DELETE_GROUP: Final = _rpc(
    "DeleteGroup", _delete, _nothing(group_pb2.DeleteGroupResponse), group_pb2.DeleteGroupResponse
)
