"""Answers JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from typing import Final

from strandline.broker.groups.handlers import GroupHandlers
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import code_of, heartbeat_code
from strandline.broker.kafka.wire.groups.membership import (
    HeartbeatAnswer,
    HeartbeatRequest,
    JoinGroupAnswer,
    JoinGroupRequest,
    LeaveGroupAnswer,
    LeaveGroupRequest,
    MemberOfGeneration,
    MemberThatLeaves,
    MemberThatLeft,
    SyncGroupAnswer,
    SyncGroupRequest,
)
from strandline.errors import ErrorCode, StrandlineError, UnknownMemberId
from strandline.vocabulary.groups import (
    GroupProtocol,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    LeftMember,
    MemberIdGiven,
    SyncGroup,
)

MEMBER_ID_REQUIRED_SINCE: Final = 4
"""Clients of earlier versions do not know MEMBER_ID_REQUIRED: they join once (KIP-394)."""
NAMED_PROTOCOL_SINCE: Final = 5
"""From this version of SyncGroup on, a member says which protocol it believes in (KIP-559)."""


class MembersApi:
    """These APIs, for all connections of one broker."""

    def __init__(self, groups: GroupHandlers, *, rebalance_timeout_ms_max: int) -> None:
        self._groups = groups
        self._rebalance_timeout_ms_max = rebalance_timeout_ms_max

    async def join(self, request: JoinGroupRequest, call: Call) -> JoinGroupAnswer:
        """Held until the group's next generation begins."""
        asked = self._asked(request, call)
        try:
            answer = await self._groups.join(asked, call.caller)
            if isinstance(answer, MemberIdGiven) and call.version < MEMBER_ID_REQUIRED_SINCE:
                asked = self._asked(request._replace(member=answer.member), call)
                answer = await self._groups.join(asked, call.caller)
        except StrandlineError as error:
            return JoinGroupAnswer(code_of(error), member=request.member)
        if isinstance(answer, MemberIdGiven):
            return JoinGroupAnswer(int(ErrorCode.MEMBER_ID_REQUIRED), member=answer.member)
        return _joined(answer, request.protocol_type)

    def _asked(self, request: JoinGroupRequest, call: Call) -> JoinGroup:
        """Kafka's clients may ask for any rebalance timeout: some ask for the longest that there is, or for
        none."""
        timeout_ms = request.rebalance_timeout_ms
        if timeout_ms is None:
            timeout_ms = request.session_timeout_ms
        return JoinGroup(
            request.group,
            request.member,
            request.session_timeout_ms,
            min(max(timeout_ms, 1), self._rebalance_timeout_ms_max),
            request.protocol_type,
            tuple(GroupProtocol(offered.name, offered.metadata) for offered in request.protocols),
            request.instance,
            call.header.client_id,
            request.reason or "",
        )

    async def sync(self, request: SyncGroupRequest, call: Call) -> SyncGroupAnswer:
        """Held until the leader's assignment is written."""
        if call.version >= NAMED_PROTOCOL_SINCE and (not request.protocol_type or not request.protocol):
            return SyncGroupAnswer(int(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        asked = SyncGroup(
            request.group,
            request.member,
            request.generation,
            request.protocol_type or "",
            request.protocol or "",
            {each.member: each.assignment for each in request.assignments},
            request.instance,
        )
        try:
            assignment = await self._groups.sync(asked, call.caller)
        except StrandlineError as error:
            return SyncGroupAnswer(code_of(error))
        return SyncGroupAnswer(0, assignment, request.protocol_type, request.protocol)

    async def heartbeat(self, request: HeartbeatRequest, call: Call) -> HeartbeatAnswer:
        """Never held: Kafka's clients ask again."""
        asked = Heartbeat(request.group, request.member, request.generation, request.instance)
        try:
            await self._groups.heartbeat(asked, call.caller)
        except StrandlineError as error:
            return HeartbeatAnswer(heartbeat_code(error))
        return HeartbeatAnswer()

    async def leave(self, request: LeaveGroupRequest, call: Call) -> LeaveGroupAnswer:
        asked = LeaveGroup(
            request.group,
            tuple(LeavingMember(each.member, each.instance, each.reason or "") for each in request.members),
        )
        try:
            left = await self._groups.leave(asked, call.caller)
        except UnknownMemberId as error:  # of the group: as Kafka, it is said of each member
            left = tuple(LeftMember(each.member, error) for each in request.members)
        except StrandlineError as error:
            return LeaveGroupAnswer(code_of(error))
        return LeaveGroupAnswer(0, tuple(map(_left, request.members, left)))


def _joined(joined: Joined, protocol_type: str) -> JoinGroupAnswer:
    return JoinGroupAnswer(
        0,
        joined.generation,
        protocol_type,
        joined.protocol,
        joined.leader,
        joined.member,
        tuple(MemberOfGeneration(each.member, each.metadata, each.instance) for each in joined.members),
        joined.skip_assignment,
    )


def _left(asked: MemberThatLeaves, left: LeftMember) -> MemberThatLeft:
    """The member by the id that was asked for, also if that is empty: Java's client looks for it."""
    return MemberThatLeft(asked.member, asked.instance, code_of(left.error))
