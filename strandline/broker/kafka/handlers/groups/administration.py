"""Answers ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from typing import Final

from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.groups.handlers import GroupHandlers
from strandline.broker.kafka.answers import AnswerSize
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import code_of
from strandline.broker.kafka.handlers.operations import operations_of
from strandline.broker.kafka.wire.groups.administration import (
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
from strandline.errors import ErrorCode, GroupIdNotFound, NonEmptyGroup, StrandlineError
from strandline.security.access import Access
from strandline.security.acls import ResourceType
from strandline.tasks import pipelined
from strandline.vocabulary.groups import DescribedGroup

IN_FLIGHT_MAX: Final = 64
"""Groups of one request that are deleted at the same time."""
NOT_FOUND_SINCE: Final = 6
"""Of DescribeGroups: clients of earlier versions take an unknown group for an empty one (KIP-1043)."""


class GroupAdministrationApi:
    """These APIs, for all connections of one broker."""

    def __init__(self, groups: GroupHandlers, access: Access) -> None:
        self._access = access
        self._groups = groups

    async def list(self, request: ListGroupsRequest, call: Call, size: AnswerSize) -> ListGroupsAnswer:
        """The groups that this broker coordinates. A client asks every broker."""
        try:
            groups = await self._groups.list_groups(None, call.caller)
        except StrandlineError as error:
            return ListGroupsAnswer(code_of(error))
        wanted, found = frozenset(map(str.lower, request.states)), list[GroupInList]()
        types = frozenset(map(str.lower, request.types))
        for each in groups:
            if (not wanted or each.state.lower() in wanted) and (not types or each.type in types):
                found.append(GroupInList(each.group, each.protocol_type, each.state, each.type))
            await size.add(each.group)
        return ListGroupsAnswer(0, tuple(found))

    async def describe(
        self, request: DescribeGroupsRequest, call: Call, size: AnswerSize
    ) -> DescribeGroupsAnswer:
        """A group that is not known is Dead; before version 6 that is no error. So is one without a name.
        Clients ask again for groups that get COORDINATOR_LOAD_IN_PROGRESS, since the answer is full."""
        found = [await self._describe_one(group, call, size) for group in request.groups]
        if request.operations:
            found = [self._with_operations(each, call) for each in found]
        return DescribeGroupsAnswer(tuple(found))

    def _with_operations(self, group: GroupDescription, call: Call) -> GroupDescription:
        if group.error:
            return group
        operations = operations_of(self._access, call.caller, ResourceType.GROUP, group.group)
        return group._replace(operations=operations)

    async def _describe_one(self, group: str, call: Call, size: AnswerSize) -> GroupDescription:
        await size.add(group)
        if size.full:
            return GroupDescription(group, int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        try:
            check_named(group)
            described = _described(await self._groups.describe(group, call.caller))
        except GroupIdNotFound as error:
            code, message = (code_of(error), error.message) if call.version >= NOT_FOUND_SINCE else (0, None)
            return GroupDescription(group, code, message, GroupState.DEAD.value)
        except StrandlineError as error:
            return GroupDescription(group, code_of(error), error.message)
        for member in described.members:
            await size.add(member.member, member.client_id, member.metadata, member.assignment)
        return described

    async def delete(self, request: DeleteGroupsRequest, call: Call) -> DeleteGroupsAnswer:
        async def delete_one(group: str) -> GroupResult:
            try:
                check_named(group)
                await self._groups.delete(group, call.caller)
            except (GroupIdNotFound, NonEmptyGroup) as error:  # as from Kafka, without a text
                return GroupResult(group, code_of(error))
            except StrandlineError as error:
                return GroupResult(group, code_of(error), error.message)
            return GroupResult(group)

        groups = dict.fromkeys(request.groups)
        return DeleteGroupsAnswer(tuple(await pipelined(delete_one, groups, in_flight_max=IN_FLIGHT_MAX)))


def check_named(group: str) -> None:
    """Raises GroupIdNotFound: there is no group without a name."""
    if not group:
        raise GroupIdNotFound("no group has an empty name")


def _described(group: DescribedGroup) -> GroupDescription:
    """Hosts look as those of Kafka's brokers, whose Java writes an address after the name of its host. As
    there, only a stable group has a protocol, and members with metadata of that protocol."""
    stable = group.state == GroupState.STABLE.value
    return GroupDescription(
        group.group,
        0,
        None,
        group.state,
        group.protocol_type,
        group.protocol if stable else "",
        tuple(
            MemberDescription(
                each.member,
                each.instance,
                each.client_id,
                f"/{each.host}",
                each.metadata if stable else b"",
                each.assignment,
            )
            for each in group.members
        ),
    )
