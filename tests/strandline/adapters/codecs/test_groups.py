"""Both ends of an RPC mean the same; bytes that are no request are refused with a typed error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from random import Random
from typing import Any

import pytest

from strandline.adapters.codecs import groups as rpcs
from strandline.adapters.codecs.messages import Call
from strandline.adapters.rpc.server.held_calls import host_of
from strandline.broker.core.groups.effects import EventKind, GroupEvent
from strandline.broker.groups.events import event_value
from strandline.config.limits import GROUP_ID_LENGTH_MAX
from strandline.errors import (
    IllegalGeneration,
    InvalidRequest,
    LeaderHint,
    NotCoordinator,
    OffsetMetadataTooLarge,
    StrandlineError,
)
from strandline.ids import TopicId, TopicPartition
from strandline.ports import Listener
from strandline.rpc import group_pb2
from strandline.vocabulary.groups import (
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
from strandline.vocabulary.transactions import NO_PRODUCER, TxnOffsetCommit

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 7)

RPCS: dict[str, Call[Any, Any]] = {
    "find": rpcs.FIND_COORDINATOR,
    "join": rpcs.JOIN_GROUP,
    "sync": rpcs.SYNC_GROUP,
    "heartbeat": rpcs.HEARTBEAT,
    "leave": rpcs.LEAVE_GROUP,
    "commit": rpcs.OFFSET_COMMIT,
    "txn commit": rpcs.TXN_OFFSET_COMMIT,
    "fetch": rpcs.OFFSET_FETCH,
    "report": rpcs.REPORT_OWNERSHIP,
    "report tasks": rpcs.REPORT_TASKS,
    "list": rpcs.LIST_GROUPS,
    "describe": rpcs.DESCRIBE_GROUP,
    "delete": rpcs.DELETE_GROUP,
}

COMMITTED = CommittedOffset(5, 2, "x", topic_id=TopicId("id"))

REQUESTS: list[tuple[str, Any]] = [
    ("find", "g"),
    (
        "join",
        JoinGroup(
            "g", "m", 10_000, 60_000, "consumer",
            (GroupProtocol("sticky", b"\x00\x01"), GroupProtocol("range", b"")), "i", "client", "why",
        ),
    ),
    ("join", JoinGroup("g", "", 1, 2, "consumer", ())),
    ("sync", SyncGroup("g", "m", 3, "consumer", "range", {"m": b"a", "n": b""}, "i")),
    ("sync", SyncGroup("g", "m", 3, "consumer", "range")),
    ("heartbeat", Heartbeat("g", "m", 3, "i", 500)),
    ("heartbeat", Heartbeat("g", "m", -1)),
    ("leave", LeaveGroup("g", (LeavingMember("m", None, "done"), LeavingMember("", "i")))),
    (
        "commit",
        OffsetCommit("g", "m", 3, {FIRST: COMMITTED, SECOND: CommittedOffset(0)}, "i"),
    ),
    (
        "txn commit",
        TxnOffsetCommit("t", ProducerIdentity(2**40, 7), OffsetCommit("g", "m", 3, {FIRST: COMMITTED}, "i")),
    ),
    ("txn commit", TxnOffsetCommit("t", NO_PRODUCER, OffsetCommit("g", "", -1, {}))),
    ("fetch", OffsetFetch("g")),
    ("fetch", OffsetFetch("g", (FIRST,), require_stable=True)),
    ("fetch", OffsetFetch("g", (FIRST, SECOND))),
    ("fetch", OffsetFetch("g", ())),
    (
        "report",
        ReportOwnership(
            "g", "m", 3,
            (
                OwnershipChange(OwnershipKind.ASSIGNED, (FIRST,), 17, 3, "new"),
                OwnershipChange(OwnershipKind.REVOKED, (SECOND, FIRST), 18, 2),
                OwnershipChange(OwnershipKind.LOST, (), 19, -1),
            ),
        ),
    ),
    (
        "report tasks",
        ReportTasks(
            "g", "m", 3,
            tuple(TaskChange(kind, "counts-3", 17, "why", 5, 1.5, 9) for kind in TaskChangeKind),
        ),
    ),
    ("report tasks", ReportTasks("g", "m", -1, (TaskChange(TaskChangeKind.READY, "t-0", 0, "", 0, 0, 0),))),
    ("report tasks", ReportTasks("g", "m", 3, (TaskChange(TaskChangeKind.CLOSED, "t-0", 18),))),
    ("list", None),
    ("describe", "g"),
    ("delete", "g"),
]  # fmt: skip

ANSWERS: list[tuple[str, Any]] = [
    ("find", Endpoint(3, "h", 9092, "r")),
    (
        "join",
        Joined("m", 4, "sticky", "m", (GroupMember("m", b"x", "i"), GroupMember("n", b"")), True, "y", "n"),
    ),
    ("join", MemberIdGiven("m")),
    ("sync", b"assignment"),
    ("heartbeat", None),
    ("leave", (LeftMember("m"), LeftMember("n"))),
    ("commit", {FIRST: None, SECOND: None}),
    ("txn commit", {FIRST: None, SECOND: None}),
    ("fetch", FetchedOffsets({FIRST: CommittedOffset(5, 2, "x", 99, TopicId("id")), SECOND: None})),
    ("report", None),
    ("report tasks", None),
    ("list", (ListedGroup("g", "consumer", "Stable"),)),
    (
        "describe",
        DescribedGroup(
            "g", "Stable", 4, "consumer", "sticky", "m",
            (DescribedMember("m", "c", "10.0.0.1", b"x", b"y", "i", (FIRST,)),), "why", "m",
        ),
    ),
    (
        "describe",
        DescribedGroup(
            "g", "Reconciling", 4, "consumer", "uniform", "",
            (DescribedMember("m", "c", "10.0.0.1", b"", b"", "i", (FIRST,), 3, ("t",), (), (FIRST,)),),
            "why", "m", "consumer", 4,
        ),
    ),
    ("delete", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "request_"), REQUESTS, ids=[name for name, _ in REQUESTS])
def test_a_request_is_read_as_it_was_meant(name: str, request_: object) -> None:
    rpc = RPCS[name]
    assert rpc.served.decode(rpc.encode(request_)) == request_
    assert rpc.path == rpc.served.path


@pytest.mark.parametrize(("name", "answer"), ANSWERS, ids=[name for name, _ in ANSWERS])
def test_an_answer_is_read_as_it_was_meant(name: str, answer: object) -> None:
    rpc = RPCS[name]
    assert rpc.decode(rpc.served.encode(answer, Listener.INTERNAL)) == answer


def test_unstable_partitions_are_named_in_an_answer_and_have_no_offset() -> None:
    """CORRECTNESS G22: a reader that forgets to look at them finds none, not an offset of -1."""
    rpc = RPCS["fetch"]
    answer = FetchedOffsets({FIRST: CommittedOffset(5)}, unstable={SECOND})
    found = rpc.decode(rpc.served.encode(answer, Listener.INTERNAL))
    assert found == answer and found.unstable == {SECOND}


@pytest.mark.parametrize("name", RPCS)
def test_an_error_stands_in_the_answer_with_its_facts(name: str) -> None:
    rpc = RPCS[name]
    error = NotCoordinator("not here", leader=LeaderHint(2, "h", 1, 5))
    assert rpc.served.refuse is not None
    with pytest.raises(NotCoordinator) as raised:
        rpc.decode(rpc.served.refuse(error, Listener.INTERNAL))
    assert (raised.value.message, raised.value.leader) == ("not here", error.leader)


def test_an_error_of_one_part_leaves_the_others_alone() -> None:
    rpc = RPCS["commit"]
    results = rpc.decode(
        rpc.served.encode({FIRST: None, SECOND: OffsetMetadataTooLarge("long", limit=4)}, Listener.INTERNAL)
    )
    assert results[FIRST] is None
    assert isinstance(results[SECOND], OffsetMetadataTooLarge) and results[SECOND].limit == 4
    rpc = RPCS["leave"]
    left: Sequence[LeftMember] = rpc.decode(
        rpc.served.encode([LeftMember("m", IllegalGeneration("old"))], Listener.INTERNAL)
    )
    assert isinstance(left[0].error, IllegalGeneration)


@pytest.mark.parametrize("name", RPCS)
@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"\x0a\x05ab",
        b"\x0a\x02\xff\xfe",
        b"\x0a\xff\xff\xff\xff\x0f",
        Random(1).randbytes(64) + b"\xff",
    ],
    ids=["half a tag", "cut", "no text", "a length of gigabytes", "noise"],
)
def test_bytes_that_are_no_request_are_refused_with_a_typed_error(name: str, data: bytes) -> None:
    """Truncated, oversized, non-text: InvalidRequest and never another exception."""
    rpc = RPCS[name].served
    if name == "list" and data == b"\x0a\x02\xff\xfe":
        assert rpc.decode(data) is None  # a request without fields, with one that it passes over
        return
    with pytest.raises(InvalidRequest):
        rpc.decode(data)


def test_an_unknown_kind_of_change_is_refused() -> None:
    request = group_pb2.ReportOwnershipRequest(group="g")
    request.changes.add(kind=7)
    with pytest.raises(StrandlineError, match="kind 7"):
        rpcs.REPORT_OWNERSHIP.served.decode(request.SerializeToString())
    tasks = group_pb2.ReportTasksRequest(group="g")
    tasks.changes.add(kind=8)
    with pytest.raises(StrandlineError, match="kind 8"):
        rpcs.REPORT_TASKS.served.decode(tasks.SerializeToString())


@pytest.mark.parametrize("name", [TopicPartition("t", -5), TopicPartition("", 0)], ids=["partition", "topic"])
def test_a_report_of_an_impossible_partition_is_refused(name: TopicPartition) -> None:
    change = OwnershipChange(OwnershipKind.ASSIGNED, (FIRST, name), 1, 1)
    data = rpcs.REPORT_OWNERSHIP.encode(ReportOwnership("g", "m", 1, (change,)))
    with pytest.raises(InvalidRequest, match="is no partition's name"):
        rpcs.REPORT_OWNERSHIP.served.decode(data)


def test_an_event_names_partitions_by_topic() -> None:
    event = GroupEvent(EventKind.ASSIGNED, "g", 3, 17, "m", partitions=(SECOND, FIRST))
    assert json.loads(event_value(event)) == {
        "version": 1, "event": "assigned", "group": "g", "generation": 3, "at_ms": 17, "member": "m",
        "partitions": {FIRST.topic: [FIRST.partition, SECOND.partition]},
    }  # fmt: skip
    assigned = replace(event, type="consumer", partitions=())
    assert json.loads(event_value(assigned))["type"] == "consumer"


NO_FIGURES: list[tuple[Any, Any, Any]] = [
    (-1, -1.0, -1),
    (-7, -0.5, -(2**63)),
    (2**63, nan, 10**400),
    (-(10**400), inf, inf),
    (2**63, 10**400, 2**63),
    (nan, -inf, nan),
]


@pytest.mark.parametrize(("lag", "rate", "remaining"), NO_FIGURES, ids=lambda given: str(given)[:5])
def test_an_invalid_figure_of_a_task_counts_as_unknown(lag: int, rate: float, remaining: int) -> None:
    """A rate of nothing in no time must not end the member's reports."""
    change = TaskChange(TaskChangeKind.PROGRESS, "t-0", 1, "", lag, rate, remaining)
    data = rpcs.REPORT_TASKS.encode(ReportTasks("g", "m", 1, (change,)))
    assert rpcs.REPORT_TASKS.served.decode(data).changes == (TaskChange(TaskChangeKind.PROGRESS, "t-0", 1),)


@pytest.mark.parametrize("rate", [nan, inf, -inf, -1.5])
def test_an_event_is_json_for_any_text_of_a_member(rate: float) -> None:
    """Another client's numbers come as they are: JSON has no word for these (docs/use/groups.md)."""
    request = group_pb2.ReportTasksRequest(group="g", member="m", generation=1)
    request.changes.add(task="t-0", lag=-9, records_per_s=rate, remaining_ms=-(2**63), at_ms=5)
    request.changes.add(task="t-1", lag=0, records_per_s=1e308, remaining_ms=2**63 - 1, at_ms=-5)
    bare, full = rpcs.REPORT_TASKS.served.decode(request.SerializeToString()).changes

    assert bare == TaskChange(TaskChangeKind.LEARNING, "t-0", 5)

    def on_the_wire(change: TaskChange) -> dict[str, Any]:
        event = GroupEvent(
            EventKind.TASK_LEARNING, "g", 1, change.at_ms, "m", task=change.task, lag=change.lag,
            records_per_s=change.records_per_s, remaining_ms=change.remaining_ms,
        )  # fmt: skip
        fields: dict[str, Any] = json.loads(event_value(event), parse_constant=pytest.fail)
        return fields

    same = {"version": 1, "event": "task_learning", "group": "g", "generation": 1, "member": "m"}
    assert on_the_wire(bare) == {**same, "at_ms": 5, "task": "t-0"}
    assert on_the_wire(full) == {
        **same, "at_ms": -5, "task": "t-1", "lag": 0, "records_per_s": 1e308, "remaining_ms": 2**63 - 1,
    }  # fmt: skip


def test_a_long_reason_is_cut_before_it_is_sent() -> None:
    """A report that is larger than a message would not arrive at all."""
    change = TaskChange(TaskChangeKind.CLOSED, "t-0", 1, "x" * 10_000_000)
    data = rpcs.REPORT_TASKS.encode(ReportTasks("g", "m", 1, (change,)))
    assert rpcs.REPORT_TASKS.served.decode(data).changes[0].reason == "x" * GROUP_ID_LENGTH_MAX


def test_two_assignments_for_one_member_are_refused() -> None:
    """The last one must not win silently: the leader that sends both is broken."""
    request = group_pb2.SyncGroupRequest(group="g")
    request.assignments.add(member="m", assignment=b"a")
    request.assignments.add(member="m", assignment=b"b")
    with pytest.raises(InvalidRequest, match="more than once"):
        rpcs.SYNC_GROUP.served.decode(request.SerializeToString())


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.1:5000", "10.0.0.1"),
        ("ipv6:%5B::1%5D:5000", "::1"),
        ("ipv6:[fe80::1%25eth0]:5", "fe80::1%eth0"),
        ("unix:/tmp/socket", "unix:/tmp/socket"),
    ],
)
def test_a_members_host_is_the_address_that_it_came_from(peer: str, host: str) -> None:
    assert host_of(peer) == host


def test_offsets_come_with_the_topics_as_they_were_when_the_group_began_to_read_them() -> None:
    since = {FIRST.topic: ReadSince(TopicId("id"), 3), "later": ReadSince()}
    message = rpcs.OFFSET_FETCH.served.encode(FetchedOffsets({FIRST: None}, since), Listener.INTERNAL)
    assert rpcs.OFFSET_FETCH.decode(message).read_since == since
