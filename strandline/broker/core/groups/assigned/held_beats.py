"""Heartbeats that are held while they would say nothing new to a member whose coordinator assigns.

A member hears of its partitions in answers to its heartbeats. One that is held is answered as soon as there
is news for its member, which asks again at once and goes its step then. So a partition moves within a few
round trips, and not within a heartbeat's interval. The step of a member of the classic protocol is a join.
"""

from __future__ import annotations

from strandline.broker.core.consumer_groups.change import Change
from strandline.broker.core.consumer_groups.classic.joining import must_join
from strandline.broker.core.consumer_groups.member import ConsumerMember, MemberState
from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.groups.assigned.sessions import await_join, restart_session, session_ms
from strandline.broker.core.groups.member_requests import HELD_SHARE_MAX
from strandline.broker.core.groups.state.consumers import Consumers
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.turn import Turn
from strandline.broker.core.groups.timers import Timer, TimerKind
from strandline.errors import FencedInstanceId, RebalanceInProgress, StrandlineError, UnknownMemberId
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


def hold_classic(
    turn: Turn,
    group: Group,
    consumers: Consumers,
    call: Call[None],
    member: ConsumerMember,
    max_wait_ms: int,
) -> None:
    """As `hold`. One that may not wait is answered at once."""
    _answer_classic(turn, group, consumers, member.member, None)
    if max_wait_ms <= 0:
        turn.answer(call, None)
        return
    consumers.classic_held[member.member] = call
    turn.start(
        _timer(group, member.member), min(max_wait_ms, session_ms(turn, group, member) * HELD_SHARE_MAX)
    )


def due(turn: Turn, group: Group, consumers: Consumers, member_id: str) -> None:
    """The member has waited long enough."""
    _answer(turn, group, consumers, member_id, turn.times(group.name).heartbeat_interval_ms)
    _answer_classic(turn, group, consumers, member_id, None)


def interrupt(turn: Turn, group: Group, consumers: Consumers, member_id: str) -> None:
    """The member joins again, before it has heard of it."""
    error = RebalanceInProgress(f"member {member_id!r} of group {group.name} has joined again")
    _answer_classic(turn, group, consumers, member_id, error)


def follow(turn: Turn, group: Group, consumers: Consumers, change: Change) -> None:
    """Answers those for whose members a change is news, and those of members that are gone."""
    core = consumers.core
    for member_id, before in change.before.items():
        if member_id not in core.members:
            _answer_gone(turn, group, consumers, member_id, before)
    asked = dict.fromkeys(change.targeted)
    if _frees(consumers, change):
        unreleased = MemberState.UNRELEASED_PARTITIONS
        asked |= {name: None for name in consumers.held if core.members[name].state is unreleased}
    for member_id in asked:
        if member_id in consumers.held and change.is_news(core.members[member_id]):
            _answer(turn, group, consumers, member_id, 0)
    if not change.before and not change.bumped:
        return
    for member_id in list(consumers.classic_held):
        member = core.members[member_id]
        if must_join(core, member):
            await_join(turn, group, member)
            error = RebalanceInProgress(f"group {group.name} is in epoch {core.epoch}: {core.reason}")
            _answer_classic(turn, group, consumers, member_id, error)


def _answer_gone(
    turn: Turn, group: Group, consumers: Consumers, member_id: str, before: ConsumerMember | None
) -> None:
    """A process whose instance is another one by now must not come back."""
    error: StrandlineError = UnknownMemberId(f"member {member_id!r} is out of group {group.name!r}")
    instance = None if before is None else before.instance
    if instance is not None and instance in consumers.core.statics:
        error = FencedInstanceId(f"instance {instance!r} of group {group.name} is no longer {member_id!r}")
    call = consumers.held.pop(member_id, None)
    if call is not None:
        turn.answer(call, error)
    classic = consumers.classic_held.pop(member_id, None)
    if classic is not None:
        turn.answer(classic, error)
    turn.timers.cancel(_timer(group, member_id))


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


def _answer_classic(
    turn: Turn, group: Group, consumers: Consumers, member_id: str, answer: StrandlineError | None
) -> None:
    call = consumers.classic_held.pop(member_id, None)
    if call is not None:
        turn.timers.cancel(_timer(group, member_id))
        turn.answer(call, answer)
        restart_session(turn, group, member_id)


def _timer(group: Group, member_id: str) -> Timer:
    return Timer(TimerKind.CONSUMER_HEARTBEAT, group.name, member_id)
