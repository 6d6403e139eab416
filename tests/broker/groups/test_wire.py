"""The broker's side of the RPCs says what the clients' side means; what is no request is refused as one."""

from __future__ import annotations

import os
from typing import Any

import pytest

from broker.groups import wire
from broker.groups.server import host_of
from strandline.client import group_wire
from strandline.errors import (
    IllegalGeneration,
    InvalidRequest,
    LeaderHint,
    NotCoordinator,
    OffsetMetadataTooLarge,
    StrandlineError,
)
from strandline.groups import (
    CommittedOffset,
    DescribedGroup,
    DescribedMember,
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
    ReportOwnership,
    SyncGroup,
)
from strandline.ids import TopicPartition
from strandline.metadata import Endpoint
from strandline.ports import Method
from strandline.rpc import group_pb2

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 7)

RPCS: dict[str, tuple[Method[Any, Any], wire.Rpc]] = {
    "find": (group_wire.FIND_COORDINATOR, wire.FIND_COORDINATOR),
    "join": (group_wire.JOIN_GROUP, wire.JOIN_GROUP),
    "sync": (group_wire.SYNC_GROUP, wire.SYNC_GROUP),
    "heartbeat": (group_wire.HEARTBEAT, wire.HEARTBEAT),
    "leave": (group_wire.LEAVE_GROUP, wire.LEAVE_GROUP),
    "commit": (group_wire.OFFSET_COMMIT, wire.OFFSET_COMMIT),
    "fetch": (group_wire.OFFSET_FETCH, wire.OFFSET_FETCH),
    "report": (group_wire.REPORT_OWNERSHIP, wire.REPORT_OWNERSHIP),
    "list": (group_wire.LIST_GROUPS, wire.LIST_GROUPS),
    "describe": (group_wire.DESCRIBE_GROUP, wire.DESCRIBE_GROUP),
    "delete": (group_wire.DELETE_GROUP, wire.DELETE_GROUP),
}

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
        OffsetCommit("g", "m", 3, {FIRST: CommittedOffset(5, 2, "x"), SECOND: CommittedOffset(0)}, "i"),
    ),
    ("fetch", OffsetFetch("g")),
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
    ("leave", [LeftMember("m"), LeftMember("n")]),
    ("commit", {FIRST: None, SECOND: None}),
    ("fetch", {FIRST: CommittedOffset(5, 2, "x", 99), SECOND: None}),
    ("report", None),
    ("list", [ListedGroup("g", "consumer", "Stable")]),
    (
        "describe",
        DescribedGroup(
            "g", "Stable", 4, "consumer", "sticky", "m",
            (DescribedMember("m", "c", "10.0.0.1", b"x", b"y", "i", (FIRST,)),), "why", "m",
        ),
    ),
    ("delete", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "request_"), REQUESTS, ids=[name for name, _ in REQUESTS])
def test_a_request_is_read_as_it_was_meant(name: str, request_: object) -> None:
    method, rpc = RPCS[name]
    assert rpc.decode(method.encode(request_)) == request_
    assert method.path == f"/strandline.v1.Groups/{rpc.name}"


@pytest.mark.parametrize(("name", "answer"), ANSWERS, ids=[name for name, _ in ANSWERS])
def test_an_answer_is_read_as_it_was_meant(name: str, answer: object) -> None:
    method, rpc = RPCS[name]
    assert method.decode(rpc.encode(answer)) == answer


@pytest.mark.parametrize("name", RPCS)
def test_an_error_stands_in_the_answer_with_its_facts(name: str) -> None:
    method, rpc = RPCS[name]
    error = NotCoordinator("not here", leader=LeaderHint(2, "h", 1, 5))
    with pytest.raises(NotCoordinator) as raised:
        method.decode(rpc.refuse(error))
    assert (raised.value.message, raised.value.leader) == ("not here", error.leader)


def test_an_error_of_one_part_leaves_the_others_alone() -> None:
    method, rpc = RPCS["commit"]
    results = method.decode(rpc.encode({FIRST: None, SECOND: OffsetMetadataTooLarge("long", limit=4)}))
    assert results[FIRST] is None
    assert isinstance(results[SECOND], OffsetMetadataTooLarge) and results[SECOND].limit == 4
    method, rpc = RPCS["leave"]
    left: list[LeftMember] = method.decode(rpc.encode([LeftMember("m", IllegalGeneration("old"))]))
    assert isinstance(left[0].error, IllegalGeneration)


@pytest.mark.parametrize("name", RPCS)
@pytest.mark.parametrize(
    "data",
    [b"\xff", b"\x0a\x05ab", b"\x0a\x02\xff\xfe", b"\x0a\xff\xff\xff\xff\x0f", os.urandom(64) + b"\xff"],
    ids=["half a tag", "cut", "no text", "a length of gigabytes", "noise"],
)
def test_bytes_that_are_no_request_are_refused_with_a_typed_error(name: str, data: bytes) -> None:
    """Truncated, oversized, non-text: InvalidRequest and never another exception."""
    _, rpc = RPCS[name]
    if name == "list" and data == b"\x0a\x02\xff\xfe":
        assert rpc.decode(data) is None  # a request without fields, with one that it passes over
        return
    with pytest.raises(InvalidRequest):
        rpc.decode(data)


def test_a_kind_of_change_that_nobody_knows_is_refused() -> None:
    request = group_pb2.ReportOwnershipRequest(group="g")
    request.changes.add(kind=7)
    with pytest.raises(StrandlineError, match="kind 7"):
        wire.REPORT_OWNERSHIP.decode(request.SerializeToString())


def test_two_assignments_for_one_member_are_refused() -> None:
    """The last one must not win silently: the leader that sends both is broken."""
    request = group_pb2.SyncGroupRequest(group="g")
    request.assignments.add(member="m", assignment=b"a")
    request.assignments.add(member="m", assignment=b"b")
    with pytest.raises(InvalidRequest, match="more than once"):
        wire.SYNC_GROUP.decode(request.SerializeToString())


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
