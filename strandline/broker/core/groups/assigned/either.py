"""Requests of members of the classic protocol, to groups of either kind."""

from __future__ import annotations

from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.groups import member_requests
from strandline.broker.core.groups.assigned import translation
from strandline.broker.core.groups.requests import Report
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.ownership_reports import report_ownership
from strandline.broker.core.groups.state.turn import Turn
from strandline.errors import InvalidRequest
from strandline.vocabulary.groups import Heartbeat, LeaveGroup, LeftMember, SyncGroup


def sync(turn: Turn, group: Group, call: Call[bytes], request: SyncGroup) -> None:
    if group.consumers is not None:
        translation.sync(turn, group, group.consumers, call, request)
    else:
        member_requests.sync(turn, group, call, request)


def heartbeat(turn: Turn, group: Group, call: Call[None], request: Heartbeat) -> None:
    if group.consumers is not None:
        translation.heartbeat(turn, group, group.consumers, call, request)
    else:
        member_requests.heartbeat(turn, group, call, request)


def leave(turn: Turn, group: Group, call: Call[tuple[LeftMember, ...]], request: LeaveGroup) -> None:
    """Raises InvalidRequest for more members than a group may have."""
    most = turn.limits.group_members_max
    if len(request.members) > most:
        raise InvalidRequest(f"{len(request.members)} members leave at once, more than {most}", limit=most)
    if group.consumers is not None:
        translation.leave(turn, group, group.consumers, call, request)
    else:
        member_requests.leave(turn, group, call, request.members)


def report(turn: Turn, group: Group, call: Call[None], asked: Report) -> None:
    if group.consumers is not None:
        translation.report(turn, group, group.consumers, call, asked.request)
    else:
        report_ownership(turn, group, call, asked.request, asked.missing)
