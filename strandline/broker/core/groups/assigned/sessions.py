"""The sessions of members whose coordinator assigns."""

from __future__ import annotations

from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.turn import Turn
from strandline.broker.core.groups.timers import Timer, TimerKind


def restart_session(turn: Turn, group: Group, member_id: str) -> None:
    """The member has its whole session timeout again."""
    timer = Timer(TimerKind.CONSUMER_SESSION, group.name, member_id)
    turn.start(timer, turn.times(group.name).session_timeout_ms)
