"""One event explained: a sentence, its cause, its record, what it changed, and what belongs to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from strandline.console.core.timeline.all_rows import Rows
from strandline.console.core.timeline.facts.observations import GONE, SeenEvent
from strandline.console.core.timeline.lanes.marks import Marks
from strandline.console.core.timeline.places import OFFSETS_END, TOPICS, Ref, event_id, unpack
from strandline.console.core.timeline.rows import GroupRow, PartitionRow
from strandline.console.core.timeline.telling import group_events, observations, state_changes
from strandline.ids import NO_BROKER, OFFSETS_TOPIC
from strandline.report.text.partition_names import compact
from strandline.vocabulary.state_changes import ChangeKind, Command, StateChangeEvent, dump_event

RELATED_MAX: Final = 12
AROUND_MS: Final = 60_000
"""Related events lie at most this far away."""
REBALANCE_MS_MAX: Final = 600_000
"""The beginning and the end of a rebalance are looked for within this time."""
LOOKED_AT_MAX: Final = 200
"""Events that are read to find the related ones."""

Event = StateChangeEvent | Mapping[str, Any] | SeenEvent


class Events(Protocol):
    """What an explanation needs of the window."""

    rows: Rows

    def event(self, ref: Ref) -> Event | None:
        """None if its record is not kept."""


def explain(events: Events, ref: Ref, event: Event, at_ms: int) -> dict[str, Any]:
    """The answer for one event; `at_ms` is when it is shown."""
    source, partition, offset = unpack(ref)
    before, after = _change(events, ref, event, at_ms)
    topic = TOPICS.get(source)
    return {
        "id": event_id(ref),
        "at": at_ms,
        "sentence": sentence(event),
        "cause": _cause(event),
        "record": None if topic is None else {"topic": topic, "partition": partition, "offset": offset},
        "fields": _fields(event),
        "before": before,
        "after": after,
        "related": [
            {"id": event_id(other), "at": other_ms, "sentence": sentence(said)}
            for other_ms, other, said in _related(events, ref, event, at_ms)
        ],
    }


def sentence(event: Event) -> str:
    """What happened, in one sentence."""
    match event:
        case StateChangeEvent():
            return state_changes.sentence(event)
        case SeenEvent():
            return observations.sentence(event)
        case _:
            return group_events.sentence(event)


def _cause(event: Event) -> str:
    match event:
        case StateChangeEvent():
            return state_changes.cause(event)
        case SeenEvent():
            return ""
        case _:
            return group_events.cause(event)


def _fields(event: Event) -> dict[str, Any]:
    match event:
        case StateChangeEvent():
            return dump_event(event)
        case SeenEvent():
            whose = {} if event.broker == NO_BROKER else {"broker": event.broker}
            return {"kind": event.kind, **whose, "at": event.at_ms}
        case _:
            # Numbers that JSON does not have, which Python's reader takes, become texts.
            fields: dict[str, Any] = json.loads(json.dumps(event), parse_constant=str)
            return fields


# --- before and after ---------------------------------------------------------------------------


def _change(events: Events, ref: Ref, event: Event, at_ms: int) -> tuple[dict[str, Any], dict[str, Any]]:
    match event:
        case StateChangeEvent():
            before, after = state_changes.change(event)
            row = _partition(events, event)
            if row is not None and event.command is ChangeKind.ELECT_LEADER:
                if (led := row.leader.before(ref)) is not None:
                    before = {"leader": None if led.value < 0 else led.value, "epoch": led.order}
                if (isr := row.isr.before(ref)) is not None:
                    before["isr"] = list(isr.value)
            return before, after
        case SeenEvent():
            return {}, {}
        case _:
            return _moved(events, ref, event, at_ms)


def _moved(
    events: Events, ref: Ref, event: Mapping[str, Any], at_ms: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each member had before and after a rebalance, or the one that the event is about."""
    row = events.rows.groups.get(event["group"])
    if row is None:
        return {}, {}
    first, end = _place(ref), _place(ref) + 1
    members: list[str] = [event["member"]] if event.get("member") in row.members else []
    if event["event"] in group_events.OF_A_REBALANCE:
        first, end = _rebalance(events, row, _place(ref), at_ms)
        members = sorted(row.members)[:RELATED_MAX]
    before, after = (
        {member: compact(row.members[member].before(order)) for member in members} for order in (first, end)
    )
    return {"members": before}, {"members": after}


def _rebalance(events: Events, row: GroupRow, place: int, at_ms: int) -> tuple[int, int]:
    """The places of the beginning of a rebalance, and of the first event that is no longer a part of it: the
    next one, or what the member gave up whose leaving led to it."""
    before = row.events.between(at_ms - REBALANCE_MS_MAX, at_ms + 1, LOOKED_AT_MAX)
    after = row.events.between(at_ms + 1, at_ms + REBALANCE_MS_MAX)[:LOOKED_AT_MAX]
    near = sorted((_place(ref), kind, ref) for _, kind, ref in before + after)
    starts = [at for at, kind, _ in near if kind == "rebalance_started"]
    first = max((at for at in starts if at <= place), default=place)
    end = min((at for at in starts if at > place), default=OFFSETS_END)
    within = [(at, kind, events.event(ref)) for at, kind, ref in near if first < at < end]
    stable = min((at for at, kind, _ in within if kind == "generation_stable"), default=end)
    later = [(at, kind, _member(event)) for at, kind, event in within if at > stable]
    left = {member for _, kind, member in later if kind == "member_left"}
    gave = (at for at, kind, member in later if kind in ("revoked", "lost") and member in left)
    return first, min(gave, default=end)


def _member(event: Event | None) -> object:
    return event.get("member") if isinstance(event, Mapping) else None


def _place(ref: Ref) -> int:
    return unpack(ref)[2]


# --- what belongs to it -------------------------------------------------------------------------


def _related(events: Events, ref: Ref, event: Event, at_ms: int) -> list[tuple[int, Ref, Event]]:
    """The nearest events that belong to this one, in the order of time."""
    match event:
        case StateChangeEvent():
            found = _of_state_change(events, event, at_ms)
        case SeenEvent():
            found = _of_observation(events, event, at_ms)
        case _:
            found = _of_group_event(events, event, at_ms)
    nearest: dict[Ref, tuple[int, Ref, Event]] = {}
    for other_ms, other, said in found:
        if other != ref:
            nearest.setdefault(other, (other_ms, other, said))
    chosen = sorted(nearest.values(), key=lambda each: abs(each[0] - at_ms))[:RELATED_MAX]
    return sorted(chosen, key=lambda each: each[:2])


def _read(
    events: Events, marks: Marks, from_ms: int, until_ms: int, kinds: frozenset[str] | None = None
) -> Iterator[tuple[int, Ref, Event]]:
    """The events of a lane in a time, as far as the window has them."""
    for at_ms, kind, ref in marks.between(from_ms, until_ms, LOOKED_AT_MAX):
        if (kinds is None or kind in kinds) and (event := events.event(ref)) is not None:
            yield at_ms, ref, event


_LEADERSHIP: Final = frozenset(
    {
        kind.value
        for kind in (
            ChangeKind.ELECT_LEADER,
            ChangeKind.RESIGN_LEADER,
            ChangeKind.CHANGE_ISR,
            ChangeKind.TRUNCATE,
        )
    }
)


def _of_state_change(events: Events, event: StateChangeEvent, at_ms: int) -> Iterator[tuple[int, Ref, Event]]:
    row = _partition(events, event)
    if row is None:
        return
    around = at_ms - AROUND_MS, at_ms + AROUND_MS
    if isinstance(event.command, Command) or event.command in (ChangeKind.REASSIGN, ChangeKind.OVERDUE):
        span = events.rows.spans.get(event.id)
        if span is not None:
            around = min(around[0], span.from_ms), max(around[1], span.until_ms + 1)
        for at, ref, other in _read(events, row.events, *around, frozenset({event.command.value})):
            if isinstance(other, StateChangeEvent) and other.id == event.id:
                yield at, ref, other
        if event.command is not ChangeKind.REASSIGN:
            return
    yield from _read(events, row.events, *around, _LEADERSHIP)
    led = row.leader.value_at(at_ms - 1)
    brokers = {event.broker, *event.left, *event.joined} | ({led} if led is not None else set())
    for broker in sorted(brokers):
        if (seen := events.rows.brokers.get(broker)) is not None:
            yield from _read(events, seen.events, *around)
    if event.topic == OFFSETS_TOPIC and event.command is ChangeKind.ELECT_LEADER:
        yield from _read(events, events.rows.rebalances, at_ms, around[1])


def _of_observation(events: Events, event: SeenEvent, at_ms: int) -> Iterator[tuple[int, Ref, Event]]:
    row = events.rows.brokers.get(event.broker)
    if row is None:
        return
    around = at_ms - AROUND_MS, at_ms + AROUND_MS
    yield from _read(events, row.events, *around)
    yield from _read(events, row.marks, *around)
    if event.kind != GONE:
        return
    for at, ref, other in _read(events, events.rows.elections, *around):
        led = _partition(events, other) if isinstance(other, StateChangeEvent) else None
        before = None if led is None else led.leader.before(ref)
        if before is not None and before.value == event.broker:
            yield at, ref, other


def _of_group_event(events: Events, event: Mapping[str, Any], at_ms: int) -> Iterator[tuple[int, Ref, Event]]:
    row = events.rows.groups.get(event["group"])
    if row is None:
        return
    task = event.get("task")
    for at, ref, other in _read(events, row.events, at_ms - AROUND_MS, at_ms + AROUND_MS):
        if isinstance(other, Mapping) and (other.get("task") == task if task else "task" not in other):
            yield at, ref, other
    if event["event"] == "rebalance_started":
        for at, ref, other in _read(events, events.rows.elections, at_ms - AROUND_MS, at_ms + 1):
            if isinstance(other, StateChangeEvent) and other.topic == OFFSETS_TOPIC:
                yield at, ref, other


def _partition(events: Events, event: StateChangeEvent) -> PartitionRow | None:
    return events.rows.known_partition(event.topic, event.key.partition)
