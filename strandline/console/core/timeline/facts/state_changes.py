"""Puts a state change into the rows that it is about."""

from __future__ import annotations

from typing import Final

from strandline.console.core.timeline.all_rows import Rows
from strandline.console.core.timeline.lanes.spans import UNKNOWN_MS, Span, Spans
from strandline.console.core.timeline.places import Ref
from strandline.console.core.timeline.rows import GONE, PartitionRow, Row
from strandline.vocabulary.reassignment_events import CANCELLED, is_cancelled
from strandline.vocabulary.state_changes import (
    ENDS,
    ChangeKind,
    Command,
    LifeChange,
    RequestState,
    StateChangeEvent,
    life_change,
)

UNCLEAN: Final = "unclean-election"
ELECTED: Final = "elected"
RESIGNED: Final = "resigned"
LEFT: Final = "left-isr"
JOINED: Final = "joined-isr"
REASON_CHARS_MAX: Final = 60
"""The reason of a reassignment is a part of its label up to this length."""


def put(rows: Rows, event: StateChangeEvent, at_ms: int, ref: Ref) -> list[Row]:
    """Adds an event to its rows, and returns them; none beyond the limit of rows."""
    row = rows.partition(event.topic, event.key.partition)
    if row is None:
        return []
    touched: list[Row] = [row]
    row.events.add(at_ms, event.command.value, ref)
    row.brokers.add(event.broker)
    row.brokers.update(event.left, event.joined, event.replicas)
    if not isinstance(event.command, Command):
        row.lived(rows.interned.one(event.key.topic_id), event.epoch)
    if event.isr is not None:
        row.isr.add(at_ms, rows.interned.one(event.isr), ref, event.epoch)
        row.brokers.update(event.isr)
    match event.command:
        case Command():
            if (broker := rows.broker(event.broker)) is not None:
                touched.append(broker)
            _live(rows, row, event, at_ms, ref)
            _step(
                rows, event, at_ms, ref, [row.requests, rows.requests, *([broker.requests] if broker else [])]
            )
        case ChangeKind.REASSIGN:
            _step(rows, event, at_ms, ref, [row.reassignments])
            row.replicas.changed(at_ms)
        case ChangeKind.ELECT_LEADER:
            row.leader.add(at_ms, event.broker, ref, event.epoch)
            rows.elections.add(at_ms, rows.interned.one(row.name), ref)
            _mark(rows, touched, event.broker, at_ms, ELECTED, ref)
            if event.unclean:
                row.marks.add(at_ms, UNCLEAN, ref)
                _mark(rows, touched, event.broker, at_ms, UNCLEAN, ref)
        case ChangeKind.RESIGN_LEADER:
            row.leader.add(at_ms, GONE, ref, event.epoch)
            _mark(rows, touched, event.broker, at_ms, RESIGNED, ref)
        case ChangeKind.CHANGE_ISR:
            for broker_id in event.left:
                _mark(rows, touched, broker_id, at_ms, LEFT, ref)
            for broker_id in event.joined:
                _mark(rows, touched, broker_id, at_ms, JOINED, ref)
        case ChangeKind.OVERDUE | ChangeKind.TRUNCATE | ChangeKind.DELETE_STRAY:
            row.marks.add(at_ms, event.command.value, ref)
            _mark(rows, touched, event.broker, at_ms, event.command.value, ref)
    return touched


def _live(rows: Rows, row: PartitionRow, event: StateChangeEvent, at_ms: int, ref: Ref) -> None:
    """Marks where the partition was created or deleted. Each of its replicas has a request that says so, all
    of one time: the first that is read counts."""
    kind = life_change(event)
    if kind is None or any(kind.value == each for _, each, _ in row.marks.between(at_ms, at_ms + 1)):
        return
    row.marks.add(at_ms, kind.value, ref)
    if kind is LifeChange.DELETED:
        row.deleted(rows.interned.one(event.key.topic_id), at_ms, ref)


def _mark(rows: Rows, touched: list[Row], broker: int, at_ms: int, kind: str, ref: Ref) -> None:
    """Marks what happened to a broker in the partition that was touched first."""
    if broker >= 0 and (row := rows.broker(broker)) is not None:
        row.marks.add(at_ms, kind, ref, rows.interned.one(touched[0].name))
        touched.append(row)


def _step(rows: Rows, event: StateChangeEvent, at_ms: int, ref: Ref, lanes: list[Spans]) -> None:
    """One step of a request or a reassignment. Steps may come in any order."""
    span = rows.spans.get(event.id)
    new = span is None
    if span is None:
        span = Span(event.id, event.command.value, event.topic, event.key.partition, event.broker, at_ms)
        rows.spans[event.id] = span
    elif at_ms < span.from_ms:
        for lane in lanes:
            lane.remove(span)
        span.from_ms, new = at_ms, True
    _note(span, event, at_ms, ref)
    for lane in lanes:
        if new:
            lane.add(span)
        else:
            lane.noted(span)


def _note(span: Span, event: StateChangeEvent, at_ms: int, ref: Ref) -> None:
    state = event.state
    if event.replicas:
        why = (
            f" ({event.reason[:REASON_CHARS_MAX]})"
            if state is RequestState.REQUESTED and event.reason
            else ""
        )
        span.label = f"to {','.join(map(str, event.replicas))}{why}" if why or not span.label else span.label
    if state is RequestState.RECEIVED:
        span.received_ms = at_ms
    elif state in ENDS:
        span.until_ms = max(at_ms, span.from_ms)
    if state in ENDS or span.until_ms == UNKNOWN_MS:
        span.state = CANCELLED if is_cancelled(event) else state.value
        span.ref = ref
