"""The lanes of a row in a view, as JSON: a few items for each pixel, however much the window holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from strandline.console.core.member_names import short_members
from strandline.console.core.timeline.facts.transactions import OPEN
from strandline.console.core.timeline.gaps import Gap, Gaps, led, parted
from strandline.console.core.timeline.lanes.holdings import Held
from strandline.console.core.timeline.lanes.marks import Mark, Marks
from strandline.console.core.timeline.lanes.spans import UNKNOWN_MS, Drawn, Span, Spans
from strandline.console.core.timeline.lanes.steps import ALWAYS, Step, Steps
from strandline.console.core.timeline.places import event_id
from strandline.console.core.timeline.rows import (
    NO_ROLE,
    BrokerRow,
    GroupRow,
    PartitionRow,
    Phase,
    Role,
    Row,
    TaskRow,
    TransactionRow,
    Turn,
)
from strandline.console.core.timeline.view import View, request_name
from strandline.report.text.counts import counted
from strandline.report.text.durations import age
from strandline.report.text.partition_names import compact

Lane = dict[str, Any]
Item = dict[str, Any]
V = TypeVar("V")

RESTORING: Final = ("learning", "restoring")
"""The roles in which a member has less than the whole state."""
LANES_MAX: Final = 50
"""Lanes of members in one row; `lanes_left` says how many more there are."""
NAMED_MAX: Final = 500
"""An item names the partitions of a member up to this length."""


def draw(row: Row | TransactionRow | Span, view: View, gaps: Gaps) -> dict[str, Any]:
    """A row of the answer, with its lanes."""
    if isinstance(row, Span):
        lanes = [_lane("request", [_request(Drawn([row]), view)])]
        return {"id": f"request/{row.id}", "name": request_name(row), "lanes": lanes}
    lanes = list(_lanes(row, view, gaps))
    shown = {"id": row.id, "name": row.name, "lanes": lanes[:LANES_MAX]}
    return shown if len(lanes) <= LANES_MAX else {**shown, "lanes_left": len(lanes) - LANES_MAX}


def _lanes(row: Row | TransactionRow, view: View, gaps: Gaps) -> Iterator[Lane]:
    match row:
        case PartitionRow():
            return _partition(row, view, gaps)
        case BrokerRow():
            return _broker(row, view)
        case GroupRow():
            return _group(row, view)
        case TaskRow():
            return _learners([row], short_members(row.members), view)
        case TransactionRow():
            return _transactions(row, view)


# --- partitions and brokers ---------------------------------------------------------------------


def _partition(row: PartitionRow, view: View, gaps: Gaps) -> Iterator[Lane]:
    if view.wants("leader") or view.wants("isr"):
        yield from _leadership(row, view, gaps)
    if view.wants("offsets") and row.samples is not None and row.topic in view.offsets_of:
        watermarks, ends = row.samples.drawn(view.from_ms, view.until_ms, view.pixel_ms)
        yield {
            "kind": "offsets",
            "hw": _broken(watermarks, row.leader.ends),
            "leo": _broken(ends, row.leader.ends),
        }
    yield from _requests(row.requests, view)
    if view.wants("reassignment") and row.reassignments:
        drawn = row.reassignments.drawn(view.from_ms, view.until_ms, view.pixel_ms)
        moves = [_request(each, view, lambda span: {"label": span.label}) for each in drawn]
        yield from _some("reassignment", moves)
    yield from _marks(row.marks, view)


def _leadership(row: PartitionRow, view: View, gaps: Gaps) -> Iterator[Lane]:
    sizes = list(_steps(row.isr, view))
    leaders = list(led(_steps(row.leader, view), sizes, gaps))
    if view.wants("leader") and row.leader:
        items = [
            {**_item(step, _leader), **({} if gap is None else {"unknown": gap.why})}
            for step, gap in leaders
            if step.at_ms < view.until_ms
        ]
        yield _lane("leader", items)
    if view.wants("isr") and row.isr:
        unknown = [gap for _, gap in leaders if gap is not None]
        yield _lane("isr", list(_isr(row, [step for step in sizes if _shown(step)], unknown, view)))


def _leader(step: Step[int]) -> Item:
    return {"broker": step.value, "epoch": step.order}


def _isr(
    row: PartitionRow, steps: Sequence[Step[tuple[int, ...]]], unknown: Sequence[Gap], view: View
) -> Iterator[Item]:
    """The ISRs, where they are known."""
    most = max((len(step.value) for step in steps), default=0)

    def facts(step: Step[tuple[int, ...]]) -> Item:
        size = len(step.value)
        at_ms = row.isr.seen_ms if step.at_ms == ALWAYS else step.at_ms
        of = row.replicas.now if step.until_ms is None else row.replicas.at(at_ms)
        if not row.replicas.now and (step.until_ms is None or row.replicas.unchanged(step.at_ms)):
            of = most
        return {"size": size, "of": None if of is None or of < size else of, "members": list(step.value)}

    for step in steps:
        item = _item(step, facts)
        for part, gap in parted(step, unknown):
            if gap is None and part.at_ms < view.until_ms:
                yield {**item, **_place(part)}


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
        alive = [_item(step, _alive, row.alive.seen_ms) for step in _steps(row.alive, view)]
        yield _lane("alive", alive)
    if view.wants("drain"):
        drained = [_item(step, _drain, row.drain.seen_ms) for step in _steps(row.drain, view) if _shown(step)]
        yield from _some("drain", drained)
    yield from _requests(row.requests, view, lambda span: {"about": f"{span.topic}-{span.partition}"})
    yield from _marks(row.marks, view)


def _alive(step: Step[bool]) -> Item:
    return {"label": "alive" if step.value else "gone", "alive": step.value}


def _drain(step: Step[bool]) -> Item:
    return {"label": "drained" if step.value else "not drained"}


def _no_more(span: Span) -> Item:
    return {}


def _requests(spans: Spans, view: View, more: Callable[[Span], Item] = _no_more) -> Iterator[Lane]:
    if view.wants("request") and spans:
        drawn = spans.drawn(view.from_ms, view.until_ms, view.pixel_ms)
        yield from _some("request", [_request(each, view, more) for each in drawn])


def _request(drawn: Drawn, view: View, more: Callable[[Span], Item] = _no_more) -> Item:
    span = drawn.spans[-1]
    item: Item = {
        "from": drawn.from_ms,
        "received": None if span.received_ms == UNKNOWN_MS else span.received_ms,
        "until": drawn.until_ms,
        "command": span.command,
        "state": span.state,
        "broker": span.broker,
        **more(span),
        "event": event_id(span.ref),
    }
    if drawn.count == 1:
        return item
    parts = [_request(each, view, more) for each in drawn.parts(view.parts)]
    return {**item, "received": None, "event": None, **_several(drawn.count, drawn.last_ms, parts)}


def _marks(marks: Marks, view: View) -> Iterator[Lane]:
    if view.wants("marks"):
        drawn = marks.drawn(view.from_ms, view.until_ms, view.pixel_ms, view.parts)
        yield from _some("marks", [_mark(each) for each in drawn])


def _mark(mark: Mark) -> Item:
    item = {"at": mark.at_ms, "kind": mark.kind, "count": mark.number, "event": event_id(mark.ref)}
    if mark.about:
        item["about"] = mark.about
    if mark.number == 1:
        return item
    return {**item, **_several(mark.number, mark.last_ms, [_mark(each) for each in mark.parts])}


# --- groups and tasks -------------------------------------------------------------------------------


def _group(row: GroupRow, view: View) -> Iterator[Lane]:
    if view.wants("generation") and row.generations:
        yield _lane("generation", [_item(step, _phase) for step in _steps(row.generations, view)])
    tasks = row.tasks.values()
    names = short_members({*row.members, *(member for task in tasks for member in task.members)})
    if view.wants("owned"):
        for member, held in sorted(row.members.items(), key=lambda each: (each[1].gone, each[0])):
            items = [_item(step, _owned) for step in _steps(held.steps(), view) if _shown(step)]
            yield from ({**lane, "member": member, "name": names[member]} for lane in _some("owned", items))
    yield from _learners(tasks, names, view, learning=True)


def _owned(step: Step[Held]) -> Item:
    return {"label": counted(len(step.value), "partition"), "partitions": _short(compact(step.value))}


def _phase(step: Step[Phase]) -> Item:
    phase = step.value
    label = _phase_label(phase.state, phase.generation, phase.reason)
    return {"label": label, **phase._asdict()}


def _phase_label(state: str, generation: int, reason: str) -> str:
    match state:
        case "rebalancing":
            return f"rebalancing: {reason}" if reason else "rebalancing"
        case "joined":
            return f"generation {generation}, not assigned yet"
        case "ended":
            return f"generation {generation} has ended"
        case _:
            return f"generation {generation}"


def _transactions(row: TransactionRow, view: View) -> Iterator[Lane]:
    """Bars of what is open or ending, and a mark at each end."""
    if view.wants("transaction"):
        steps = _steps(row.turns, view)
        yield from _some(
            "transaction",
            [_item(step, _turn) for step in steps if step.value.state in OPEN or step.merged > 1],
        )
    yield from _marks(row.ends, view)


def _turn(step: Step[Turn]) -> Item:
    state, count = step.value
    label = f"{OPEN[state]}, {counted(count, 'partition')}" if state in OPEN else state.value
    return {"label": label, "state": state.value}


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
            _item(step, lambda each: {"label": _role(each.value), **each.value._asdict()})
            for step in _steps(steps, view)
            if drawn(step.value) or step.merged > 1
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
    return steps.drawn(view.from_ms, view.until_ms, view.pixel_ms, view.parts)


def _shown(step: Step[Any]) -> bool:
    """Whether something held, or may have: of several, `value` is that of the last."""
    return bool(step.value) or step.merged > 1


def _item(step: Step[V], facts: Callable[[Step[V]], Item], seen_ms: int | None = None) -> Item:
    """`seen_ms`: of something that no topic records: what was there at the first look began `earlier`."""
    item = {**_place(step), **facts(step)}
    if step.at_ms == ALWAYS and seen_ms is not None:
        item |= {"from": seen_ms, "earlier": True}
    if step.merged == 1:
        return item
    parts = [_item(each, facts, seen_ms) for each in step.parts]
    return {**item, **_several(step.merged, step.last_ms, parts)}


def _place(step: Step[Any]) -> Item:
    """From when until when; `from` is None if that is not known."""
    began_ms = None if step.at_ms == ALWAYS else step.at_ms
    return {"from": began_ms, "until": step.until_ms, "event": event_id(step.ref)}


def _several(count: int, last_ms: int, parts: list[Item]) -> Item:
    """Of an item that stands for several: how many, when the last began, and the first of them."""
    return {"merged": count, "last": last_ms, "parts": parts}


def _lane(kind: str, items: list[Item]) -> Lane:
    return {"kind": kind, "items": items}


def _some(kind: str, items: list[Item]) -> Iterator[Lane]:
    """The lane, if there is anything in it."""
    if items:
        yield _lane(kind, items)
