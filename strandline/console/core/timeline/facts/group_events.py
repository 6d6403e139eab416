"""Puts an event of a group into the rows that it is about. Nothing in an event is trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from strandline.console.core.timeline.all_rows import Rows
from strandline.console.core.timeline.lanes.holdings import NOTHING, Change, Held
from strandline.console.core.timeline.places import Ref
from strandline.console.core.timeline.rows import NO_ROLE, GroupRow, Phase, Role, Row
from strandline.ids import TopicPartition

PHASES: Final = {
    "rebalance_started": "rebalancing",
    "generation_started": "joined",
    "generation_stable": "stable",
    "generation_ended": "ended",
}
ROLES: Final = {
    "task_learning": "learning",
    "task_progress": "learning",
    "task_ready": "ready",
    "task_running": "running",
    "task_restoring": "restoring",
    "task_suspended": "suspended",
    "task_closed": "closed",
    "task_standby": "standby",
}
PROGRESSING: Final = frozenset({"learning", "ready", "restoring", "standby"})
"""The roles in which a member restores a state."""
HOLDINGS: Final = frozenset({"assigned", "revoked", "lost"})
PARTITIONS_MAX: Final = 10_000
"""Partitions of one event; further ones are left out."""
TEXT_CHARS_MAX: Final = 300
"""A reason or a name is kept up to this length."""


def put(rows: Rows, event: Mapping[str, Any], at_ms: int, ref: Ref, order: int) -> list[Row]:
    """Adds an event to its rows, and returns them; none beyond the limit of rows. `order` is its offset."""
    group = rows.group(event["group"][:TEXT_CHARS_MAX])
    if group is None:
        return []
    kind = event["event"][:TEXT_CHARS_MAX]
    touched: list[Row] = [group]
    group.events.add(at_ms, rows.interned.one(kind), ref)
    member = rows.interned.one(text_of(event, "member"))
    if kind in PHASES:
        _phase(rows, group, kind, event, at_ms, ref, order)
    elif kind in HOLDINGS:
        parts = partitions_of(event)
        took, gave = (parts, NOTHING) if kind == "assigned" else (NOTHING, parts)
        group.of(member).add(Change(order, at_ms, ref, took, gave))
    elif kind == "member_left":
        if (held := group.members.get(member)) is not None:
            held.add(Change(order, at_ms, ref, NOTHING, None))
        for task in group.tasks.values():
            if (steps := task.members.get(member)) is not None:
                steps.add(at_ms, NO_ROLE, ref, order)
    elif kind in ROLES:
        row = rows.task(group, rows.interned.one(text_of(event, "task")))
        if row is not None:
            touched.append(row)
            steps = row.of(member)
            steps.add(at_ms, _role(steps.value_at(at_ms), kind, event), ref, order)
    return touched


def _phase(
    rows: Rows, group: GroupRow, kind: str, event: Mapping[str, Any], at_ms: int, ref: Ref, order: int
) -> None:
    phase = Phase(
        PHASES[kind],
        event["generation"],
        rows.interned.one(text_of(event, "reason")),
        rows.interned.one(text_of(event, "caused_by")),
    )
    group.generations.add(at_ms, phase, ref, order)
    if kind == "rebalance_started":
        rows.rebalances.add(at_ms, group.group, ref)


def _role(before: Role | None, kind: str, event: Mapping[str, Any]) -> Role:
    """Progress does not change what a member does with a task."""
    state = ROLES[kind]
    if kind == "task_progress" and before is not None and before.state in PROGRESSING:
        state = before.state
    return Role(
        state, whole(event.get("lag")), _number(event.get("records_per_s")), whole(event.get("remaining_ms"))
    )


def text_of(event: Mapping[str, Any], name: str) -> str:
    """A field as text; empty without it."""
    found = event.get(name, "")
    return found[:TEXT_CHARS_MAX] if isinstance(found, str) else ""


def partitions_of(event: Mapping[str, Any]) -> Held:
    """The partitions that an event names; what is none is left out."""
    given = event.get("partitions")
    found: set[TopicPartition] = set()
    for topic, numbers in given.items() if isinstance(given, dict) else ():
        for number in numbers if isinstance(numbers, list) else ():
            if type(number) is int and 0 <= number < 2**31:
                found.add(TopicPartition(topic, number))
            if len(found) == PARTITIONS_MAX:
                return frozenset(found)
    return frozenset(found)


def whole(value: object) -> int:
    """A whole number that is not negative, else -1."""
    return value if type(value) is int and 0 <= value < 2**62 else -1


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e15 else -1
