"""The timers of members whose coordinator assigns."""

from __future__ import annotations

from typing import Final

from strandline.broker.core.consumer_groups.member import ConsumerMember
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.turn import Turn
from strandline.broker.core.groups.timers import Timer, TimerKind

OF_MEMBERS: Final = (
    TimerKind.CONSUMER_SESSION,
    TimerKind.CONSUMER_HEARTBEAT,
    TimerKind.REVOCATION,
    TimerKind.CLASSIC_JOIN,
    TimerKind.CLASSIC_SYNC,
)


def session_ms(turn: Turn, group: Group, member: ConsumerMember | None) -> int:
    """A member of the classic protocol chooses its session timeout; None: a new one of the consumer
    protocol."""
    if member is not None and member.classic is not None:
        return member.classic.session_timeout_ms
    return turn.times(group.name).session_timeout_ms


def restart_session(turn: Turn, group: Group, member_id: str) -> None:
    """The member has its whole session timeout again."""
    member = None if group.consumers is None else group.consumers.core.members.get(member_id)
    turn.start(Timer(TimerKind.CONSUMER_SESSION, group.name, member_id), session_ms(turn, group, member))


def cancel(turn: Turn, group: Group, member_id: str) -> None:
    """The member is out, or of another kind of group."""
    for kind in OF_MEMBERS:
        turn.timers.cancel(Timer(kind, group.name, member_id))


def await_join(turn: Turn, group: Group, member: ConsumerMember) -> None:
    """A member of the classic protocol hears that it is to join: it has its rebalance timeout, from when it
    first heard of it."""
    timer = Timer(TimerKind.CLASSIC_JOIN, group.name, member.member)
    if not turn.timers.is_set(timer):
        turn.start(timer, member.rebalance_timeout_ms)


def await_sync(turn: Turn, group: Group, member: ConsumerMember) -> None:
    """It has joined, and is to ask for its assignment."""
    turn.timers.cancel(Timer(TimerKind.CLASSIC_JOIN, group.name, member.member))
    turn.start(Timer(TimerKind.CLASSIC_SYNC, group.name, member.member), member.rebalance_timeout_ms)


def synced(turn: Turn, group: Group, member: ConsumerMember) -> None:
    turn.timers.cancel(Timer(TimerKind.CLASSIC_SYNC, group.name, member.member))
