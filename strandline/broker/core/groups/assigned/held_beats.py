"""Heartbeats that are held while they would say nothing new to a member whose coordinator assigns.

A member hears of its partitions in answers to its heartbeats. One that is held is answered as soon as there
is news for its member, which asks again at once and goes its step then. So a partition moves within a few
round trips, and not within a heartbeat's interval.
"""

from __future__ import annotations

from strandline.broker.core.consumer_groups.change import Change
from strandline.broker.core.consumer_groups.member import ConsumerMember, MemberState
from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.groups.assigned.sessions import restart_session
from strandline.broker.core.groups.member_requests import HELD_SHARE_MAX
from strandline.broker.core.groups.state.consumers import Consumers
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.turn import Turn
from strandline.broker.core.groups.timers import Timer, TimerKind
from strandline.errors import UnknownMemberId
from strandline.vocabulary.groups import ConsumerBeat, ConsumerHeartbeat


def hold(
    turn: Turn, group: Group, consumers: Consumers, call: Call[ConsumerBeat], request: ConsumerHeartbeat
) -> None:
    """Hold the member's heartbeat; one that is held already is answered."""
    times = turn.times(group.name)
    _answer(turn, group, consumers, request.member, times.heartbeat_interval_ms)
    consumers.held[request.member] = call
    held_ms = min(request.max_wait_ms, times.session_timeout_ms * HELD_SHARE_MAX)
    turn.start(_timer(group, request.member), held_ms)


def due(turn: Turn, group: Group, consumers: Consumers, member_id: str) -> None:
    """The member has waited long enough."""
    _answer(turn, group, consumers, member_id, turn.times(group.name).heartbeat_interval_ms)


def follow(turn: Turn, group: Group, consumers: Consumers, change: Change) -> None:
    """Answers those for whose members a change is news, and those of members that are gone."""
    core = consumers.core
    for member_id in change.before:
        if member_id not in core.members and (call := consumers.held.pop(member_id, None)) is not None:
            turn.timers.cancel(_timer(group, member_id))
            turn.answer(call, UnknownMemberId(f"member {member_id!r} is out of group {group.name!r}"))
    asked = dict.fromkeys(change.targeted)
    if _frees(consumers, change):
        unreleased = MemberState.UNRELEASED_PARTITIONS
        asked |= {name: None for name in consumers.held if core.members[name].state is unreleased}
    for member_id in asked:
        if member_id in consumers.held and change.is_news(core.members[member_id]):
            _answer(turn, group, consumers, member_id, 0)


def _frees(consumers: Consumers, change: Change) -> bool:
    """Whether a member has a partition less."""
    members = consumers.core.members
    return any(
        before is not None and not _keys(before) <= _keys(members.get(name))
        for name, before in change.before.items()
    )


def _keys(member: ConsumerMember | None) -> frozenset[object]:
    return frozenset() if member is None else frozenset((*member.assigned, *member.revoking))


def _answer(turn: Turn, group: Group, consumers: Consumers, member_id: str, interval_ms: int) -> None:
    call = consumers.held.pop(member_id, None)
    if call is not None:
        turn.timers.cancel(_timer(group, member_id))
        turn.answer(call, ConsumerBeat(member_id, consumers.core.members[member_id].epoch, interval_ms))
        restart_session(turn, group, member_id)


def _timer(group: Group, member_id: str) -> Timer:
    return Timer(TimerKind.CONSUMER_HEARTBEAT, group.name, member_id)
