"""Publishes the members' reports about their tasks as events of the group.

Tasks belong to the members, as their metadata does: a coordinator never asks which tasks there are or where
they run. It checks that a report comes from a member, and passes it on.
"""

from __future__ import annotations

from typing import Final

from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.groups.effects import EventKind, GroupEvent
from strandline.broker.core.groups.limits import check_task, cut
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.turn import Turn
from strandline.errors import IllegalGeneration, InvalidRequest
from strandline.vocabulary.groups import ReportTasks, TaskChangeKind

_EVENTS: Final = {kind: EventKind(f"task_{kind.value}") for kind in TaskChangeKind}


def report_tasks(turn: Turn, group: Group, call: Call[None], request: ReportTasks) -> None:
    """Publish the changes of a member's tasks, in its order: all of them, or none.

    A report may be about an earlier generation, in which the member made the change. Raises UnknownMemberId
    if the sender is not a member (any longer), IllegalGeneration for a generation that has not begun,
    InvalidRequest for more changes than a report may have, and for an invalid task name.
    """
    member = group.find(request.member, None, turn.by)
    if request.generation > group.generation:
        raise IllegalGeneration(
            f"member {member.member!r} reports of generation {request.generation}; group {group.name} "
            f"is in generation {group.generation}"
        )
    most = turn.limits.task_changes_per_report_max
    if len(request.changes) > most:
        raise InvalidRequest(
            f"member {member.member!r} reports {len(request.changes)} changes of tasks, more than {most}",
            limit=most,
        )
    for change in request.changes:
        check_task(change.task)
    for change in request.changes:
        turn.publish_event(
            GroupEvent(
                _EVENTS[change.kind],
                group.name,
                request.generation,
                change.at_ms,
                member.member,
                cut(change.reason),
                task=change.task,
                lag=change.lag,
                records_per_s=change.records_per_s,
                remaining_ms=change.remaining_ms,
            )
        )
    turn.answer(call, None)
