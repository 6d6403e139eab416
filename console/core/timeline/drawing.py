"""The lanes of a row in a view, as JSON: a few items for each pixel, however much the window holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from strandline.console.core.member_names import short_members
from strandline.console.core.timeline.lanes.marks import Marks
from strandline.console.core.timeline.lanes.spans import UNKNOWN_MS, Drawn, Span, Spans
from strandline.console.core.timeline.lanes.steps import ALWAYS, Step, Steps
from strandline.console.core.timeline.places import event_id
from strandline.console.core.timeline.rows import (
    NO_ROLE,
    BrokerRow,
    GroupRow,
    PartitionRow,
    Role,
    Row,
    TaskRow,
)
from strandline.console.core.timeline.view import View, request_name
from strandline.report.text.counts import counted
from strandline.report.text.durations import age
from strandline.report.text.partition_names import compact

Lane = dict[str, Any]
Item = dict[str, Any]

RESTORING: Final = ("learning", "restoring")
"""The roles in which a member has less than the whole state."""
LANES_MAX: Final = 50
"""Lanes of members in one row; `lanes_left` says how many more there are."""
NAMED_MAX: Final = 500
"""An item names the partitions of a member up to this length."""


def draw(row: Row | Span, view: View) -> dict[str, Any]:
    """A row of the answer, with its lanes."""
    if isinstance(row, Span):
        lanes = [_lane("request", [_request(Drawn(row, 1, row.from_ms, _end(row)))])]
        return {"id": f"request/{row.id}", "name": request_name(row), "lanes": lanes}
    lanes = list(_lanes(row, view))
    shown = {"id": row.id, "name": row.name, "lanes": lanes[:LANES_MAX]}
    return shown if len(lanes) <= LANES_MAX else {**shown, "lanes_left": len(lanes) - LANES_MAX}


def _lanes(row: Row, view: View) -> Iterator[Lane]:
    match row:
        case PartitionRow():
            return _partition(row, view)
        case BrokerRow():
            return _broker(row, view)
        case GroupRow():
            return _group(row, view)
        case TaskRow():
            return _learners([row], short_members(row.members), view)


# --- partitions and brokers ---------------------------------------------------------------------


def _partition(row: PartitionRow, view: View) -> Iterator[Lane]:
    if view.wants("leader") and row.leader:
        leaders = [_item(step, broker=step.value, epoch=step.order) for step in _steps(row.leader, view)]
        yield _lane("leader", leaders)
    if view.wants("isr") and row.isr:
        isr = [step for step in _steps(row.isr, view) if step.value]
        most = row.replicas or max((len(step.value) for step in isr), default=0)
        yield _lane(
            "isr",
            [
                _item(
                    step,
                    size=len(step.value),
                    of=most if row.replicas_since_ms <= step.at_ms or step.until_ms is None else None,
                    members=list(step.value),
                )
                for step in isr
            ],
        )
    if view.wants("offsets") and row.samples is not None and row.topic in view.offsets_of:
        watermarks, ends = row.samples.drawn(view.from_ms, view.until_ms, view.pixel_ms)
        yield {
            "kind": "offsets",
            "hw": _broken(watermarks, row.leader.ends),
            "leo": _broken(ends, row.leader.ends),
        }
    yield from _requests(row.requests, view)
    if view.wants("reassignment") and row.reassignments:
        items = [
            {**_request(drawn), "label": drawn.span.label}
            for drawn in row.reassignments.drawn(view.from_ms, view.until_ms, view.pixel_ms)
        ]
        yield from _some("reassignment", items)
    yield from _marks(row.marks, view)


def _broken(points: list[list[int]], ends: tuple[int, ...]) -> list[list[int | None]]:
    """A line with a gap, [time, None], where the partition was deleted: the log of another topic follows."""
    line: list[list[int | None]] = [[*point] for point in points]
    if points:
        gaps: list[list[int | None]] = [
            [end_ms, None] for end_ms in ends if points[0][0] < end_ms < points[-1][0]
        ]
        line = sorted(line + gaps, key=lambda point: point[0] or 0)
    return line


def _broker(row: BrokerRow, view: View) -> Iterator[Lane]:
    if view.wants("alive") and row.alive:
        alive = [
            _seen(step, row.alive, label="alive" if step.value else "gone", alive=step.value)
            for step in _steps(row.alive, view)
        ]
        yield _lane("alive", alive)
    if view.wants("drain"):
        drained = [_seen(step, row.drain, label="drained") for step in _steps(row.drain, view) if step.value]
        yield from _some("drain", drained)
    yield from _requests(row.requests, view)
    yield from _marks(row.marks, view)


def _requests(spans: Spans, view: View) -> Iterator[Lane]:
    if view.wants("request") and spans:
        yield from _some(
            "request",
            [_request(each) for each in spans.drawn(view.from_ms, view.until_ms, view.pixel_ms)],
        )


def _request(drawn: Drawn) -> Item:
    span = drawn.span
    item: Item = {
        "from": drawn.from_ms,
        "received": None if span.received_ms == UNKNOWN_MS else span.received_ms,
        "until": drawn.until_ms,
        "command": span.command,
        "state": span.state,
        "broker": span.broker,
        "event": event_id(span.ref),
    }
    return item if drawn.count == 1 else {**item, "received": None, "event": None, "merged": drawn.count}


def _end(span: Span) -> int | None:
    return None if span.open else span.until_ms


def _marks(marks: Marks, view: View) -> Iterator[Lane]:
    if view.wants("marks"):
        drawn = marks.drawn(view.from_ms, view.until_ms, view.pixel_ms)
        items = [
            {"at": each.at_ms, "kind": each.kind, "count": each.number, "event": event_id(each.ref)}
            for each in drawn
        ]
        yield from _some("marks", items)


# --- groups and tasks -------------------------------------------------------------------------------


def _group(row: GroupRow, view: View) -> Iterator[Lane]:
    if view.wants("generation") and row.generations:
        phases = [
            _item(
                step,
                label=_phase(step.value.state, step.value.generation, step.value.reason),
                state=step.value.state,
                generation=step.value.generation,
                reason=step.value.reason,
                caused_by=step.value.caused_by,
            )
            for step in _steps(row.generations, view)
        ]
        yield _lane("generation", phases)
    tasks = row.tasks.values()
    names = short_members({*row.members, *(member for task in tasks for member in task.members)})
    if view.wants("owned"):
        for member, held in sorted(row.members.items(), key=lambda each: (each[1].gone, each[0])):
            items = [
                _item(
                    step, label=counted(len(step.value), "partition"), partitions=_short(compact(step.value))
                )
                for step in _steps(held.steps(), view)
                if step.value
            ]
            yield from ({**lane, "member": member, "name": names[member]} for lane in _some("owned", items))
    yield from _learners(tasks, names, view, learning=True)


def _phase(state: str, generation: int, reason: str) -> str:
    match state:
        case "rebalancing":
            return f"rebalancing: {reason}" if reason else "rebalancing"
        case "joined":
            return f"generation {generation}, not assigned yet"
        case "ended":
            return f"generation {generation} has ended"
        case _:
            return f"generation {generation}"


def _learners(
    tasks: Iterable[TaskRow], names: Mapping[str, str], view: View, *, learning: bool = False
) -> Iterator[Lane]:
    """The roles of each member; with `learning` only those in which it restores the task's state. Lanes whose
    member has no such role any longer are the last. `names`: short ones of members."""
    if not view.wants("learner"):
        return

    def drawn(role: Role) -> bool:
        return role.state in RESTORING if learning else role.state != NO_ROLE.state

    lanes = [(task, member, steps) for task in tasks for member, steps in sorted(task.members.items())]
    lanes.sort(key=lambda each: not drawn(each[2].last or NO_ROLE))
    for task, member, steps in lanes:
        items = [
            _item(step, label=_role(step.value), **step.value._asdict())
            for step in _steps(steps, view)
            if drawn(step.value)
        ]
        whose = {"member": member, "name": names[member], "task": task.task}
        yield from ({**lane, **whose} for lane in _some("learner", items))


def _role(role: Role) -> str:
    said = [role.state]
    if role.lag >= 0 and role.state in ("learning", "restoring", "ready"):
        said.append(f"lag {role.lag:,}")
    if role.records_per_s >= 0 and role.state in RESTORING:
        said.append(f"{role.records_per_s:,.0f} records/s")
    if role.remaining_ms >= 0 and role.state in RESTORING:
        said.append(f"{age(role.remaining_ms)} left")
    return ", ".join(said)


def _short(text: str) -> str:
    return text if len(text) <= NAMED_MAX else f"{text[:NAMED_MAX]}…"


# --- items --------------------------------------------------------------------------------------


def _steps(steps: Steps[Any], view: View) -> Iterator[Step[Any]]:
    return steps.drawn(view.from_ms, view.until_ms, view.pixel_ms)


def _item(step: Step[Any], **facts: Any) -> Item:
    began_ms = None if step.at_ms == ALWAYS else step.at_ms
    item = {"from": began_ms, "until": step.until_ms, **facts, "event": event_id(step.ref)}
    return item if step.merged == 1 else {**item, "merged": step.merged}


def _seen(step: Step[Any], steps: Steps[Any], **facts: Any) -> Item:
    """Of something that no topic records: what was there at the first look began `earlier` than `from`."""
    item = _item(step, **facts)
    return item if item["from"] is not None else {**item, "from": steps.seen_ms, "earlier": True}


def _lane(kind: str, items: list[Item]) -> Lane:
    return {"kind": kind, "items": items}


def _some(kind: str, items: list[Item]) -> Iterator[Lane]:
    """The lane, if there is anything in it."""
    if items:
        yield _lane(kind, items)
