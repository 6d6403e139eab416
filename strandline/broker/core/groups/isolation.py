"""The one place where an error that is not a StrandlineError does not end the process.

Everywhere else such an error is a defect and ends the process at once. A group is the exception, because
its turns work on records of the log: those are there again after a restart, here and on every broker that
takes over. Ending the process would end all brokers, one after the other. So the group ends instead: it is
Dead on this coordinator, its calls are answered, and the driver logs its state. Other groups of the
partition are not affected: groups share no state but the timers and writes of `Turn`.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.broker.core.consumer_groups.change import Change
from strandline.broker.core.groups.effects import EventKind
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.core.groups.state.turn import Turn
from strandline.errors import CoordinatorNotAvailable


class Isolation:
    """Runs the turns of groups. `groups` is the coordinator's own dict."""

    __slots__ = ("_groups", "_turn")

    def __init__(self, turn: Turn, groups: dict[str, Group]) -> None:
        self._turn = turn
        self._groups = groups

    def run(self, name: str, act: Callable[[], None]) -> None:
        """Run a turn of one group. An exception ends the group, not the caller."""
        try:
            act()
        except Exception as error:
            self._end_group(name, error)

    def _end_group(self, name: str, error: Exception) -> None:
        """Make the group Dead. It stays known with its offsets, so that no new group of its name can begin
        without knowing of them, until it is deleted or another broker leads its partition."""
        turn, group = self._turn, self._groups.get(name)
        refusal = CoordinatorNotAvailable(
            f"group {name} is {GroupState.DEAD.value} on this coordinator, one of its turns failed with "
            f"{error!r:.200}; delete the group, or have its partition of the offsets topic led elsewhere"
        )
        if group is not None and group.state is not GroupState.DEAD:
            turn.report_failure(name, group.summary(), error)
            for member in group.members:
                turn.publish(
                    EventKind.MEMBER_LEFT, name, group.generation, member=member, reason="the group is Dead"
                )
            turn.timers.cancel_all(lambda timer: timer.group == name)
            if group.consumers is not None:
                # A deletion of the group ends these records, too.
                kept = Change(name, group.consumers.core, 0).keys()
                group.leftover |= dict.fromkeys((*kept, *group.consumers.unsure), turn.last_write)
            group.become_dead(refusal.message)
        else:
            turn.report_failure(name, "", error)
        turn.ignore_writes_of(name)
        turn.refuse_open(refusal, of=name)
