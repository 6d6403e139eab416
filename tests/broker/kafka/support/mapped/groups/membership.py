"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.apis import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
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
from tests.broker.kafka.support.kio_codec import SHORT_TEXT, Values
from tests.broker.kafka.support.mapped.mapped import Mapped


def join_request(asked: Values, version: int) -> JoinGroupRequest:
    return JoinGroupRequest(
        asked["group_id"],
        asked["session_timeout_ms"],
        asked["rebalance_timeout_ms"] if version >= 1 else None,
        asked["member_id"],
        asked["protocol_type"],
        tuple(OfferedProtocol(p["name"], p["metadata"]) for p in asked["protocols"]),
        asked.get("group_instance_id"),
        asked.get("reason"),
    )


def join_answer(found: Values, version: int) -> JoinGroupAnswer:
    return JoinGroupAnswer(
        found["error_code"],
        found["generation_id"],
        found.get("protocol_type"),
        found["protocol_name"],
        found["leader"],
        found["member_id"],
        tuple(
            MemberOfGeneration(m["member_id"], m["metadata"], m.get("group_instance_id"))
            for m in found["members"]
        ),
        found.get("skip_assignment", False),
    )


def sync_request(asked: Values, version: int) -> SyncGroupRequest:
    return SyncGroupRequest(
        asked["group_id"],
        asked["generation_id"],
        asked["member_id"],
        tuple(AssignedMember(a["member_id"], a["assignment"]) for a in asked["assignments"]),
        asked.get("group_instance_id"),
        asked.get("protocol_type"),
        asked.get("protocol_name"),
    )


def sync_answer(found: Values, version: int) -> SyncGroupAnswer:
    return SyncGroupAnswer(
        found["error_code"], found["assignment"], found.get("protocol_type"), found.get("protocol_name")
    )


def heartbeat_request(asked: Values, version: int) -> HeartbeatRequest:
    return HeartbeatRequest(
        asked["group_id"], asked["generation_id"], asked["member_id"], asked.get("group_instance_id")
    )


def heartbeat_answer(found: Values, version: int) -> HeartbeatAnswer:
    return HeartbeatAnswer(found["error_code"])


def leave_request(asked: Values, version: int) -> LeaveGroupRequest:
    members = asked["members"] if version >= 3 else [asked]
    return LeaveGroupRequest(
        asked["group_id"],
        tuple(MemberThatLeaves(m["member_id"], m.get("group_instance_id"), m.get("reason")) for m in members),
    )


def leave_answer(found: Values, version: int) -> LeaveGroupAnswer:
    if version < 3:  # the error of the one member
        return LeaveGroupAnswer(0, (MemberThatLeft("m", None, found["error_code"]),))
    return LeaveGroupAnswer(
        found["error_code"],
        tuple(
            MemberThatLeft(m["member_id"], m["group_instance_id"], m["error_code"]) for m in found["members"]
        ),
    )


MAPPED: Final = (
    Mapped(JOIN_GROUP, join_request, join_answer, {"protocol_name": SHORT_TEXT}),
    Mapped(SYNC_GROUP, sync_request, sync_answer),
    Mapped(HEARTBEAT, heartbeat_request, heartbeat_answer),
    Mapped(LEAVE_GROUP, leave_request, leave_answer),
)
