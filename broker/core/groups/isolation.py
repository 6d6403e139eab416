"""The one place where an error that is not a StrandlineError does not end the process.

Everywhere else such an error is a defect and ends the process at once. A group is the exception, because
what its turn works on comes from records of the log: those are there again after a restart, here and on
every broker that takes over. Ending the process would end all brokers, one after the other. So the group
ends instead: it is Dead on this coordinator, its calls are answered, and the driver logs what it held.
Other groups of the partition are not touched: groups share no state but the timers and writes of the desk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from strandline.broker.core.groups.effects import EventKind, Token
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.core.groups.turn import Desk
from strandline.errors import CoordinatorNotAvailable


class Isolation(Generic[Token]):
    """Runs the turns of groups. `groups` is the coordinator's own dict."""

    __slots__ = ("_desk", "_groups")

    def __init__(self, desk: Desk[Token], groups: dict[str, Group[Token]]) -> None:
        self._desk = desk
        self._groups = groups

    def run(self, name: str, turn: Callable[[], None]) -> None:
        """Run a turn of one group. What it raises ends the group; the caller goes on."""
        desk, outer = self._desk, self._desk.group
        desk.group = name
        try:
            turn()
        except Exception as error:
            self._bury(name, error)
        finally:
            desk.group = outer

    def _bury(self, name: str, error: Exception) -> None:
        """The group becomes Dead. It stays known with its offsets, so that nothing begins under its name
        that would not know of them, until it is deleted or its partition is led elsewhere."""
        desk, group = self._desk, self._groups.get(name)
        refusal = CoordinatorNotAvailable(
            f"group {name} is {GroupState.DEAD.value} on this coordinator, one of its turns failed with "
            f"{error!r:.200}; delete the group, or have its partition of the offsets topic led elsewhere"
        )
        if group is not None and group.state is not GroupState.DEAD:
            desk.report_failure(name, group.summary(), error)
            for member in group.members:
                desk.publish(
                    EventKind.MEMBER_LEFT, name, group.generation, member=member, reason="the group is Dead"
                )
            desk.timers.cancel_all_of(name)
            group.bury(refusal.message)
        else:
            desk.report_failure(name, "", error)
        desk.forget_writes_of(name)
        desk.refuse_open(refusal, of=name)
