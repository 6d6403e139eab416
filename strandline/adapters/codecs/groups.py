"""The RPCs of `strandline.v1.Groups`, with the values of `strandline.vocabulary.groups`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final

from google.protobuf.message import Message

from strandline.adapters.codecs.messages import (
    ENDPOINT,
    ERROR,
    OPTIONAL_TEXT,
    SCALARS,
    Call,
    MessageCodec,
    Part,
    at_most,
    call,
    check_count,
    many,
    nothing,
    only,
    plain,
    same,
    shape,
)
from strandline.adapters.rpc.wire_errors import error_from_wire, error_to_wire, refuse
from strandline.config.limits import GROUP_ID_LENGTH_MAX, GROUP_REQUEST_ELEMENTS_MAX
from strandline.errors import InvalidRequest, MemberIdRequired
from strandline.ids import TopicId, TopicPartition
from strandline.ports import Listener, Request, Response
from strandline.rpc import group_pb2
from strandline.vocabulary.groups import (
    CLASSIC,
    CommittedOffset,
    DescribedGroup,
    DescribedMember,
    FetchedOffsets,
    GroupMember,
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
    ReadSince,
    ReportOwnership,
    ReportTasks,
    SyncGroup,
    TaskChange,
    TaskChangeKind,
)
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.parsing.typed_json import INT64_MAX
from strandline.vocabulary.transactions import TxnOffsetCommit


def _rpc(
    name: str, request: MessageCodec[Request], response: MessageCodec[Response]
) -> Call[Request, Response]:
    """Every answer of this service can carry an error, also for bytes that are no request."""
    return call(f"/strandline.v1.Groups/{name}", request, response, refuses_malformed=True)


def _bounded(codec: MessageCodec[Any], what: str) -> Part:
    """The elements of a request."""
    return many(codec, at_most(GROUP_REQUEST_ELEMENTS_MAX, what))


_PARTITION: Final = MessageCodec(
    group_pb2.GroupPartition,
    lambda name, to: group_pb2.GroupPartition(topic=name.topic, partition=name.partition),
    lambda message: TopicPartition(message.topic, message.partition),
)


# --- membership ---------------------------------------------------------------------------------


def _write_joined(answer: Joined | MemberIdGiven, to: Listener) -> Message:
    if isinstance(answer, MemberIdGiven):
        error = MemberIdRequired(f"join again as member {answer.member}")
        return group_pb2.JoinGroupResponse(error=error_to_wire(error, to), member=answer.member)
    return _JOINED.write(answer, to)


def _decode_joined(data: bytes) -> Joined | MemberIdGiven:
    """MEMBER_ID_REQUIRED is an answer too: a member id stands beside the error."""
    response = group_pb2.JoinGroupResponse.FromString(data)
    try:
        refuse(response.error)
    except MemberIdRequired:
        return MemberIdGiven(response.member)
    return _JOINED.read(response)


def _assignments(messages: Sequence[group_pb2.MemberAssignment]) -> dict[str, bytes]:
    check_count(len(messages), GROUP_REQUEST_ELEMENTS_MAX, "assignments")
    assignments = {each.member: each.assignment for each in messages}
    if len(assignments) != len(messages):
        raise InvalidRequest("a member stands more than once among the assignments")
    return assignments


_PROTOCOL: Final = shape(group_pb2.GroupProtocol, GroupProtocol)
_GROUP_MEMBER: Final = shape(group_pb2.GroupMember, GroupMember, instance=OPTIONAL_TEXT)
_LEAVING: Final = shape(group_pb2.LeavingMember, LeavingMember, instance=OPTIONAL_TEXT)
_LEFT: Final = shape(group_pb2.LeftMember, LeftMember, error=ERROR)
_JOINED: Final = shape(group_pb2.JoinGroupResponse, Joined, members=many(_GROUP_MEMBER))
_JOIN_ANSWER: Final[MessageCodec[Joined | MemberIdGiven]] = MessageCodec(
    group_pb2.JoinGroupResponse, _write_joined, _JOINED.read
)
_ASSIGNMENTS: Final = plain(
    lambda assignments: [
        group_pb2.MemberAssignment(member=member, assignment=assignment)
        for member, assignment in assignments.items()
    ],
    _assignments,
)

FIND_COORDINATOR: Final[Call[str, Endpoint]] = _rpc(
    "FindCoordinator",
    only(group_pb2.FindCoordinatorRequest, "group"),
    only(group_pb2.FindCoordinatorResponse, "coordinator", ENDPOINT),
)
JOIN_GROUP: Final = replace(
    _rpc(
        "JoinGroup",
        shape(
            group_pb2.JoinGroupRequest,
            JoinGroup,
            protocols=_bounded(_PROTOCOL, "protocols"),
            instance=OPTIONAL_TEXT,
        ),
        _JOIN_ANSWER,
    ),
    decode=_decode_joined,
)
SYNC_GROUP: Final[Call[SyncGroup, bytes]] = _rpc(
    "SyncGroup",
    shape(group_pb2.SyncGroupRequest, SyncGroup, assignments=_ASSIGNMENTS, instance=OPTIONAL_TEXT),
    only(group_pb2.SyncGroupResponse, "assignment"),
)
HEARTBEAT: Final = _rpc(
    "Heartbeat",
    shape(group_pb2.HeartbeatRequest, Heartbeat, instance=OPTIONAL_TEXT),
    nothing(group_pb2.HeartbeatResponse),
)
LEAVE_GROUP: Final[Call[LeaveGroup, Sequence[LeftMember]]] = _rpc(
    "LeaveGroup",
    shape(group_pb2.LeaveGroupRequest, LeaveGroup, members=_bounded(_LEAVING, "members")),
    only(group_pb2.LeaveGroupResponse, "members", many(_LEFT)),
)


# --- offsets ------------------------------------------------------------------------------------


def _write_commits(offsets: Mapping[TopicPartition, CommittedOffset]) -> list[group_pb2.CommittedOffset]:
    return [
        group_pb2.CommittedOffset(
            topic=topic,
            partition=partition,
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            topic_id=committed.topic_id,
        )
        for (topic, partition), committed in offsets.items()
    ]


def _read_commits(messages: Sequence[group_pb2.CommittedOffset]) -> dict[TopicPartition, CommittedOffset]:
    check_count(len(messages), GROUP_REQUEST_ELEMENTS_MAX, "offsets")
    return {
        TopicPartition(o.topic, o.partition): CommittedOffset(
            o.offset, o.leader_epoch, o.metadata, topic_id=TopicId(o.topic_id)
        )
        for o in messages
    }


def _write_results(results: OffsetResults, to: Listener) -> list[group_pb2.OffsetResult]:
    return [
        group_pb2.OffsetResult(
            topic=topic, partition=partition, error=None if error is None else error_to_wire(error, to)
        )
        for (topic, partition), error in results.items()
    ]


def _read_results(messages: Sequence[group_pb2.OffsetResult]) -> OffsetResults:
    return {TopicPartition(r.topic, r.partition): error_from_wire(r.error) for r in messages}


def _write_offset_fetch(request: OffsetFetch, to: Listener) -> group_pb2.OffsetFetchRequest:
    return group_pb2.OffsetFetchRequest(
        group=request.group,
        all=request.partitions is None,
        partitions=_PARTITIONS.write(request.partitions or (), to),
        require_stable=request.require_stable,
    )


def _read_offset_fetch(message: group_pb2.OffsetFetchRequest) -> OffsetFetch:
    partitions = None if message.all else _PARTITIONS.get(message, "partitions")
    return OffsetFetch(message.group, partitions, message.require_stable)


def _write_offsets(offsets: FetchedOffsets, to: Listener) -> group_pb2.OffsetFetchResponse:
    found = []
    for (topic, partition), committed in offsets.items():
        if committed is None:
            committed = CommittedOffset(-1)
        found.append(
            group_pb2.FetchedOffset(
                topic=topic,
                partition=partition,
                offset=committed.offset,
                leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                committed_at_ms=committed.committed_at_ms,
                topic_id=committed.topic_id,
            )
        )
    found += [
        group_pb2.FetchedOffset(topic=topic, partition=partition, offset=-1, unstable=True)
        for topic, partition in sorted(offsets.unstable)
    ]
    since = [
        group_pb2.ReadSince(topic=topic, topic_id=topic_id, partitions=partitions)
        for topic, (topic_id, partitions) in offsets.read_since.items()
    ]
    return group_pb2.OffsetFetchResponse(offsets=found, read_since=since)


def _read_offsets(message: group_pb2.OffsetFetchResponse) -> FetchedOffsets:
    offsets = {
        TopicPartition(o.topic, o.partition): (
            None
            if o.offset < 0
            else CommittedOffset(o.offset, o.leader_epoch, o.metadata, o.committed_at_ms, TopicId(o.topic_id))
        )
        for o in message.offsets
        if not o.unstable
    }
    unstable = frozenset(TopicPartition(o.topic, o.partition) for o in message.offsets if o.unstable)
    since = {each.topic: ReadSince(TopicId(each.topic_id), each.partitions) for each in message.read_since}
    return FetchedOffsets(offsets, since, unstable)


_PARTITIONS: Final = _bounded(_PARTITION, "partitions")

_COMMIT: Final = shape(
    group_pb2.OffsetCommitRequest,
    OffsetCommit,
    offsets=plain(_write_commits, _read_commits),
    instance=OPTIONAL_TEXT,
)
_COMMIT_PART: Final = Part(_COMMIT.write, _COMMIT.read)
_RESULTS: Final = only(group_pb2.OffsetCommitResponse, "results", Part(_write_results, _read_results))


def _write_txn_commit(request: TxnOffsetCommit, to: Listener) -> group_pb2.TxnOffsetCommitRequest:
    return group_pb2.TxnOffsetCommitRequest(
        transactional_id=request.transactional_id,
        producer_id=request.producer.producer_id,
        producer_epoch=request.producer.producer_epoch,
        commit=_COMMIT_PART.write(request.commit, to),
    )


def _read_txn_commit(message: group_pb2.TxnOffsetCommitRequest) -> TxnOffsetCommit:
    producer = ProducerIdentity(message.producer_id, message.producer_epoch)
    return TxnOffsetCommit(message.transactional_id, producer, _COMMIT_PART.get(message, "commit"))


OFFSET_COMMIT: Final[Call[OffsetCommit, OffsetResults]] = _rpc("OffsetCommit", _COMMIT, _RESULTS)
TXN_OFFSET_COMMIT: Final[Call[TxnOffsetCommit, OffsetResults]] = _rpc(
    "TxnOffsetCommit",
    MessageCodec(group_pb2.TxnOffsetCommitRequest, _write_txn_commit, _read_txn_commit),
    _RESULTS,
)
OFFSET_FETCH: Final[Call[OffsetFetch, FetchedOffsets]] = _rpc(
    "OffsetFetch",
    MessageCodec(group_pb2.OffsetFetchRequest, _write_offset_fetch, _read_offset_fetch),
    MessageCodec(group_pb2.OffsetFetchResponse, _write_offsets, _read_offsets),
)


# --- reports ------------------------------------------------------------------------------------


def _kind(kinds: type[OwnershipKind] | type[TaskChangeKind], message: Any, what: str) -> Part:
    """The kind of a change: an enum whose members have the names that the message's enum has."""
    wire = {kind: message.Kind.Value(kind.name) for kind in kinds}
    known = {number: kind for kind, number in wire.items()}

    def read(number: int) -> OwnershipKind | TaskChangeKind:
        kind = known.get(number)
        if kind is None:
            raise InvalidRequest(f"{what} of kind {number}; known are 0 to {max(known)}")
        return kind

    return plain(wire.__getitem__, read)


def _names(messages: Sequence[group_pb2.GroupPartition]) -> tuple[TopicPartition, ...]:
    names = tuple(map(_PARTITION.read, messages))
    for name in names:
        if not name.topic or name.partition < 0:
            raise InvalidRequest(f"ownership change of {name}, which is no partition's name")
    return names


def _changes(messages: Sequence[group_pb2.OwnershipChange]) -> Sequence[group_pb2.OwnershipChange]:
    check_count(len(messages), GROUP_REQUEST_ELEMENTS_MAX, "changes")
    named = sum(len(change.partitions) for change in messages)
    check_count(named, GROUP_REQUEST_ELEMENTS_MAX, "partitions")
    return messages


def _write_task_change(change: TaskChange, to: Listener) -> group_pb2.TaskChange:
    """Leaves out the unknown figures, and those that are no numbers: a rate over no time is infinite."""
    message = group_pb2.TaskChange(
        kind=_TASK_KIND.write(change.kind, to),
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


def _read_task_change(change: group_pb2.TaskChange) -> TaskChange:
    return TaskChange(
        _TASK_KIND.read(change.kind),
        change.task,
        change.at_ms,
        change.reason,
        change.lag if change.HasField("lag") and change.lag >= 0 else -1,
        # Neither NaN nor infinity: JSON cannot express them.
        change.records_per_s if change.HasField("records_per_s") and 0 <= change.records_per_s < inf else -1,
        change.remaining_ms if change.HasField("remaining_ms") and change.remaining_ms >= 0 else -1,
    )


_TASK_KIND: Final = _kind(TaskChangeKind, group_pb2.TaskChange, "task change")
_TASK_CHANGE: Final = MessageCodec(group_pb2.TaskChange, _write_task_change, _read_task_change)
_OWNERSHIP_CHANGE: Final = shape(
    group_pb2.OwnershipChange,
    OwnershipChange,
    kind=_kind(OwnershipKind, group_pb2.OwnershipChange, "ownership change"),
    partitions=Part(many(_PARTITION).write, _names),
)

REPORT_OWNERSHIP: Final = _rpc(
    "ReportOwnership",
    shape(group_pb2.ReportOwnershipRequest, ReportOwnership, changes=many(_OWNERSHIP_CHANGE, _changes)),
    nothing(group_pb2.ReportOwnershipResponse),
)
REPORT_TASKS: Final = _rpc(
    "ReportTasks",
    shape(group_pb2.ReportTasksRequest, ReportTasks, changes=_bounded(_TASK_CHANGE, "changes")),
    nothing(group_pb2.ReportTasksResponse),
)


# --- administration -----------------------------------------------------------------------------

_MEMBER: Final = shape(
    group_pb2.DescribedMember,
    DescribedMember,
    instance=OPTIONAL_TEXT,
    owned=many(_PARTITION),
    topics=SCALARS,
    target=many(_PARTITION),
    revoking=many(_PARTITION),
)

_TYPE: Final = Part(same, lambda text: text or CLASSIC)
LIST_GROUPS: Final[Call[None, Sequence[ListedGroup]]] = _rpc(
    "ListGroups",
    nothing(group_pb2.ListGroupsRequest),
    only(group_pb2.ListGroupsResponse, "groups", many(shape(group_pb2.ListedGroup, ListedGroup, type=_TYPE))),
)
DESCRIBE_GROUP: Final[Call[str, DescribedGroup]] = _rpc(
    "DescribeGroup",
    only(group_pb2.DescribeGroupRequest, "group"),
    shape(group_pb2.DescribeGroupResponse, DescribedGroup, members=many(_MEMBER)),
)
DELETE_GROUP: Final[Call[str, None]] = _rpc(
    "DeleteGroup", only(group_pb2.DeleteGroupRequest, "group"), nothing(group_pb2.DeleteGroupResponse)
)
