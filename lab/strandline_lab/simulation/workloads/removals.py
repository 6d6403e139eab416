"""When members were removed from a group, on the clock of the world. Pure.

The clocks of the coordinators differ from it. But a removal that a coordinator reports in a generation came
before the first assignment in a later one. A static member that returns gets its partitions in the same
generation (KIP-345): then its last process was removed before the first assignment to the next one. No event
is needed for that, and there may be none: a coordinator that dies takes its last events with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from strandline_lab.auditing.member_ownership import ASSIGNED, Change, MemberHistory
from strandline_lab.auditing.ownership import LEFT, LOST, GroupEvent


def placed(
    events: Iterable[GroupEvent], histories: Sequence[MemberHistory], instances: Mapping[str, str]
) -> list[GroupEvent]:
    """The removals, without those that came after all assignments. `instances` has the names of static
    members, by the names of their processes."""
    assigned = sorted(
        (
            (change, history)
            for history in histories
            for change in history.changes
            if change.event == ASSIGNED
        ),
        key=lambda row: (row[0].at_ms, row[0].generation),
    )
    return [*_reported(events, [change for change, _ in assigned]), *_replaced(assigned, instances)]


def _reported(events: Iterable[GroupEvent], assigned: Sequence[Change]) -> Iterator[GroupEvent]:
    for event in events:
        if event.event in (LEFT, LOST):
            later = (change.at_ms for change in assigned if change.generation > event.generation)
            at_ms = next(later, None)
            if at_ms is not None:
                yield replace(event, at_ms=at_ms)


def _replaced(
    assigned: Iterable[tuple[Change, MemberHistory]], instances: Mapping[str, str]
) -> Iterator[GroupEvent]:
    """The members that were replaced. A member that is assigned something after it was replaced itself
    does not replace the other one."""
    seen: set[str] = set()
    current: dict[str, Change] = {}
    for change, history in assigned:
        instance = instances.get(history.name)
        if instance is None or change.member in seen:
            continue
        seen.add(change.member)
        last = current.get(instance)
        if last is not None:
            yield GroupEvent(LEFT, history.group, last.generation, change.at_ms, last.member)
        current[instance] = change
