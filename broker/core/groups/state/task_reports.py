"""What members say of their tasks, for the group's events.

Tasks are the members' own, as their metadata is: which there are, and who has them, a coordinator never
asks. It sees to it that whoever says something is a member, and passes it on.
"""

from __future__ import annotations

from typing import Final

from strandline.broker.core.groups.effects import EventKind, GroupEvent, Token
from strandline.broker.core.groups.limits import check_task, cut
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.turn import Desk
from strandline.errors import IllegalGeneration, InvalidRequest
from strandline.vocabulary.groups import ReportTasks, TaskChangeKind

_EVENTS: Final = {kind: EventKind(f"task_{kind.value}") for kind in TaskChangeKind}


def report_tasks(desk: Desk[Token], group: Group[Token], token: Token, request: ReportTasks) -> None:
    """Publish what a member did with its tasks, in its order: all of it, or nothing.

    A report may be of an earlier generation: the member did it then. Raises UnknownMemberId for who is no
    member (any longer), IllegalGeneration for a generation that has not been, InvalidRequest for more changes
    than a report may have, and for what is no task's name.
    """
    member = group.find(request.member, None)
    if request.generation > group.generation:
        raise IllegalGeneration(
            f"member {member.member!r} reports of generation {request.generation}; group {group.name} "
            f"is in generation {group.generation}"
        )
    most = desk.limits.task_changes_per_report_max
    if len(request.changes) > most:
        raise InvalidRequest(
            f"member {member.member!r} reports {len(request.changes)} changes of tasks, more than {most}",
            limit=most,
        )
    for change in request.changes:
        check_task(change.task)
    for change in request.changes:
        desk.tell(
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
    desk.answer(token, None)
