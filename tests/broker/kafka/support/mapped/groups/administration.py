"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.apis import DELETE_GROUPS, DESCRIBE_GROUPS, LIST_GROUPS
from strandline.broker.kafka.wire.groups.administration import (
    CLASSIC,
    DeleteGroupsAnswer,
    DeleteGroupsRequest,
    DescribeGroupsAnswer,
    DescribeGroupsRequest,
    GroupDescription,
    GroupInList,
    GroupResult,
    ListGroupsAnswer,
    ListGroupsRequest,
    MemberDescription,
)
from strandline.broker.kafka.wire.metadata import OPERATIONS_UNKNOWN
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped


def list_request(asked: Values, version: int) -> ListGroupsRequest:
    return ListGroupsRequest(tuple(asked.get("states_filter", ())), tuple(asked.get("types_filter", ())))


def list_answer(found: Values, version: int) -> ListGroupsAnswer:
    groups = tuple(
        GroupInList(
            g["group_id"], g["protocol_type"], g.get("group_state", "Stable"), g.get("group_type", CLASSIC)
        )
        for g in found["groups"]
    )
    return ListGroupsAnswer(found["error_code"], groups)


def describe_request(asked: Values, version: int) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(tuple(asked["groups"]), asked.get("include_authorized_operations", False))


def describe_answer(found: Values, version: int) -> DescribeGroupsAnswer:
    return DescribeGroupsAnswer(tuple(map(group, found["groups"])))


def group(g: Values) -> GroupDescription:
    return GroupDescription(
        g["group_id"],
        g["error_code"],
        g["group_state"],
        g["protocol_type"],
        g["protocol_data"],
        tuple(map(member, g["members"])),
        g.get("authorized_operations", OPERATIONS_UNKNOWN),
    )


def member(m: Values) -> MemberDescription:
    return MemberDescription(
        m["member_id"],
        m.get("group_instance_id"),
        m["client_id"],
        m["client_host"],
        m["member_metadata"],
        m["member_assignment"],
    )


def delete_request(asked: Values, version: int) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(tuple(asked["groups_names"]))


def delete_answer(found: Values, version: int) -> DeleteGroupsAnswer:
    return DeleteGroupsAnswer(tuple(GroupResult(r["group_id"], r["error_code"]) for r in found["results"]))


MAPPED: Final = (
    Mapped(LIST_GROUPS, list_request, list_answer),
    Mapped(DESCRIBE_GROUPS, describe_request, describe_answer),
    Mapped(DELETE_GROUPS, delete_request, delete_answer),
)
