"""When coordinators removed members of a group, on the clock of the world. Pure.

The clocks of the coordinators differ from it. But a removal in a generation came before the first assignment
in a later one. Where a static member returns, the generation stays: then the removal came before the first
assignment to the process that replaced it (KIP-345).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from strandline.auditing.member_ownership import ASSIGNED, Change, MemberHistory
from strandline.auditing.ownership import LEFT, LOST, GroupEvent


def placed(
    events: Iterable[GroupEvent], histories: Sequence[MemberHistory], instances: Mapping[str, str]
) -> list[GroupEvent]:
    """The removals, without those that came after all assignments. `instances` has the names of static
    members, by the names of their processes."""
    rows = [(change, history.name) for history in histories for change in history.changes]
    assigned = sorted(
        (row for row in rows if row[0].event == ASSIGNED), key=lambda row: (row[0].at_ms, row[0].generation)
    )
    processes = {change.member: process for change, process in rows}
    found: list[GroupEvent] = []
    for event in events:
        if event.event not in (LEFT, LOST):
            continue
        process = processes.get(event.member, "")
        instance = instances.get(process)
        joined = False
        for change, other in assigned:
            joined |= change.member == event.member
            returned = (
                joined and other != process and instance is not None and instances.get(other) == instance
            )
            if _after(change, event, returned=returned):
                found.append(replace(event, at_ms=change.at_ms))
                break
    return found


def _after(change: Change, event: GroupEvent, *, returned: bool) -> bool:
    """True if this assignment came after the removal."""
    return change.generation > event.generation or (returned and change.generation == event.generation)
