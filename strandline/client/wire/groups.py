"""The RPCs of `strandline.v1.Groups`: between protobuf and the values of `strandline.vocabulary.groups`.

An answer that carries an error is raised by `decode` as that error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.adapters.rpc.wire_errors import error_from_wire, refuse
from strandline.client.arguments import INT64_MAX
from strandline.config import GROUP_ID_LENGTH_MAX
from strandline.errors import MemberIdRequired
from strandline.ids import TopicPartition
from strandline.ports import Method
from strandline.rpc import group_pb2
from strandline.vocabulary.groups import (
    CommittedOffset,
    DescribedGroup,
    DescribedMember,
    FetchedOffsets,
    GroupMember,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    LeftMember,
    ListedGroup,
    MemberIdGiven,
    OffsetCommit,
    OffsetFetch,
    OffsetResults,
    OwnershipKind,
    ReportOwnership,
    ReportTasks,
    SyncGroup,
    TaskChange,
    TaskChangeKind,
)
from strandline.vocabulary.metadata import Endpoint

_KINDS: Final = {
    OwnershipKind.ASSIGNED: group_pb2.OwnershipChange.ASSIGNED,
    OwnershipKind.REVOKED: group_pb2.OwnershipChange.REVOKED,
    OwnershipKind.LOST: group_pb2.OwnershipChange.LOST,
}
_TASK_KINDS: Final = {kind: group_pb2.TaskChange.Kind.Value(kind.name) for kind in TaskChangeKind}


def _partitions(names: Sequence[TopicPartition]) -> list[group_pb2.GroupPartition]:
    return [group_pb2.GroupPartition(topic=topic, partition=partition) for topic, partition in names]


# --- membership ---------------------------------------------------------------------------------


def _encode_find(group: str) -> bytes:
    return group_pb2.FindCoordinatorRequest(group=group).SerializeToString()


def _decode_find(data: bytes) -> Endpoint:
    response = group_pb2.FindCoordinatorResponse.FromString(data)
    refuse(response.error)
    end = response.coordinator
    return Endpoint(end.id, end.host, end.port, end.rack)


def _encode_join(request: JoinGroup) -> bytes:
    return group_pb2.JoinGroupRequest(
        group=request.group,
        member=request.member,
        instance=request.instance or "",
        client_id=request.client_id,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=[group_pb2.GroupProtocol(name=p.name, metadata=p.metadata) for p in request.protocols],
        reason=request.reason,
    ).SerializeToString()


def _decode_join(data: bytes) -> Joined | MemberIdGiven:
    response = group_pb2.JoinGroupResponse.FromString(data)
    try:
        refuse(response.error)
    except MemberIdRequired:
        return MemberIdGiven(response.member)
    return Joined(
        response.member,
        response.generation,
        response.protocol,
        response.leader,
        tuple(GroupMember(m.member, m.metadata, m.instance or None) for m in response.members),
        response.skip_assignment,
        response.reason,
        response.caused_by,
    )


def _encode_sync(request: SyncGroup) -> bytes:
    return group_pb2.SyncGroupRequest(
        group=request.group,
        member=request.member,
        instance=request.instance or "",
        generation=request.generation,
        protocol_type=request.protocol_type,
        protocol=request.protocol,
        assignments=[
            group_pb2.MemberAssignment(member=member, assignment=assignment)
            for member, assignment in request.assignments.items()
        ],
    ).SerializeToString()


def _decode_sync(data: bytes) -> bytes:
    response = group_pb2.SyncGroupResponse.FromString(data)
    refuse(response.error)
    return response.assignment


def _encode_heartbeat(request: Heartbeat) -> bytes:
    return group_pb2.HeartbeatRequest(
        group=request.group,
        member=request.member,
        instance=request.instance or "",
        generation=request.generation,
        max_wait_ms=request.max_wait_ms,
    ).SerializeToString()


def _decode_heartbeat(data: bytes) -> None:
    refuse(group_pb2.HeartbeatResponse.FromString(data).error)


def _encode_leave(request: LeaveGroup) -> bytes:
    return group_pb2.LeaveGroupRequest(
        group=request.group,
        members=[
            group_pb2.LeavingMember(member=m.member, instance=m.instance or "", reason=m.reason)
            for m in request.members
        ],
    ).SerializeToString()


def _decode_leave(data: bytes) -> list[LeftMember]:
    response = group_pb2.LeaveGroupResponse.FromString(data)
    refuse(response.error)
    return [LeftMember(m.member, error_from_wire(m.error)) for m in response.members]


# --- offsets ------------------------------------------------------------------------------------


def _encode_commit(request: OffsetCommit) -> bytes:
    message = group_pb2.OffsetCommitRequest(
        group=request.group,
        member=request.member,
        instance=request.instance or "",
        generation=request.generation,
    )
    for name, committed in request.offsets.items():
        message.offsets.add(
            topic=name.topic,
            partition=name.partition,
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )
    return message.SerializeToString()


def _decode_commit(data: bytes) -> OffsetResults:
    response = group_pb2.OffsetCommitResponse.FromString(data)
    refuse(response.error)
    return {TopicPartition(r.topic, r.partition): error_from_wire(r.error) for r in response.results}


def _encode_offset_fetch(request: OffsetFetch) -> bytes:
    return group_pb2.OffsetFetchRequest(
        group=request.group,
        all=request.partitions is None,
        partitions=_partitions(request.partitions or ()),
    ).SerializeToString()


def _decode_offset_fetch(data: bytes) -> FetchedOffsets:
    response = group_pb2.OffsetFetchResponse.FromString(data)
    refuse(response.error)
    return {
        TopicPartition(o.topic, o.partition): (
            None if o.offset < 0 else CommittedOffset(o.offset, o.leader_epoch, o.metadata, o.committed_at_ms)
        )
        for o in response.offsets
    }


# --- ownership and administration ---------------------------------------------------------------


def _encode_report(request: ReportOwnership) -> bytes:
    return group_pb2.ReportOwnershipRequest(
        group=request.group,
        member=request.member,
        generation=request.generation,
        changes=[
            group_pb2.OwnershipChange(
                kind=_KINDS[change.kind],
                partitions=_partitions(change.partitions),
                at_ms=change.at_ms,
                reason=change.reason,
                generation=change.generation,
            )
            for change in request.changes
        ],
    ).SerializeToString()


def _decode_report(data: bytes) -> None:
    refuse(group_pb2.ReportOwnershipResponse.FromString(data).error)


def _encode_task_report(request: ReportTasks) -> bytes:
    return group_pb2.ReportTasksRequest(
        group=request.group,
        member=request.member,
        generation=request.generation,
        changes=map(_task_change, request.changes),
    ).SerializeToString()


def _task_change(change: TaskChange) -> group_pb2.TaskChange:
    """What is not known is left out, and so is what is no number: a rate of nothing in no time."""
    message = group_pb2.TaskChange(
        kind=_TASK_KINDS[change.kind],
        task=change.task,
        at_ms=change.at_ms,
        reason=change.reason[:GROUP_ID_LENGTH_MAX],
    )
    if 0 <= change.lag <= INT64_MAX:
        message.lag = change.lag
    if 0 <= change.records_per_s <= INT64_MAX:
        message.records_per_s = change.records_per_s
    if 0 <= change.remaining_ms <= INT64_MAX:
        message.remaining_ms = change.remaining_ms
    return message


def _decode_task_report(data: bytes) -> None:
    refuse(group_pb2.ReportTasksResponse.FromString(data).error)


def _encode_list(_request: None) -> bytes:
    return group_pb2.ListGroupsRequest().SerializeToString()


def _decode_list(data: bytes) -> list[ListedGroup]:
    response = group_pb2.ListGroupsResponse.FromString(data)
    refuse(response.error)
    return [ListedGroup(g.group, g.protocol_type, g.state) for g in response.groups]


def _encode_describe(group: str) -> bytes:
    return group_pb2.DescribeGroupRequest(group=group).SerializeToString()


def _decode_describe(data: bytes) -> DescribedGroup:
    response = group_pb2.DescribeGroupResponse.FromString(data)
    refuse(response.error)
    return DescribedGroup(
        response.group,
        response.state,
        response.generation,
        response.protocol_type,
        response.protocol,
        response.leader,
        tuple(
            DescribedMember(
                m.member,
                m.client_id,
                m.host,
                m.metadata,
                m.assignment,
                m.instance or None,
                tuple(TopicPartition(p.topic, p.partition) for p in m.owned),
            )
            for m in response.members
        ),
        response.reason,
        response.caused_by,
    )


def _encode_delete(group: str) -> bytes:
    return group_pb2.DeleteGroupRequest(group=group).SerializeToString()


def _decode_delete(data: bytes) -> None:
    refuse(group_pb2.DeleteGroupResponse.FromString(data).error)


_SERVICE: Final = "/strandline.v1.Groups/"

FIND_COORDINATOR: Final = Method(_SERVICE + "FindCoordinator", _encode_find, _decode_find)
JOIN_GROUP: Final = Method(_SERVICE + "JoinGroup", _encode_join, _decode_join)
SYNC_GROUP: Final = Method(_SERVICE + "SyncGroup", _encode_sync, _decode_sync)
HEARTBEAT: Final = Method(_SERVICE + "Heartbeat", _encode_heartbeat, _decode_heartbeat)
LEAVE_GROUP: Final = Method(_SERVICE + "LeaveGroup", _encode_leave, _decode_leave)
OFFSET_COMMIT: Final = Method(_SERVICE + "OffsetCommit", _encode_commit, _decode_commit)
OFFSET_FETCH: Final = Method(_SERVICE + "OffsetFetch", _encode_offset_fetch, _decode_offset_fetch)
REPORT_OWNERSHIP: Final = Method(_SERVICE + "ReportOwnership", _encode_report, _decode_report)
REPORT_TASKS: Final = Method(_SERVICE + "ReportTasks", _encode_task_report, _decode_task_report)
LIST_GROUPS: Final = Method(_SERVICE + "ListGroups", _encode_list, _decode_list)
DESCRIBE_GROUP: Final = Method(_SERVICE + "DescribeGroup", _encode_describe, _decode_describe)
DELETE_GROUP: Final = Method(_SERVICE + "DeleteGroup", _encode_delete, _decode_delete)
