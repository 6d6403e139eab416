"""Puts what the console itself saw of the cluster into rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from strandline.console.core.timeline.all_rows import Rows
from strandline.console.core.timeline.places import Ref
from strandline.console.core.timeline.rows import Row
from strandline.vocabulary.admin import BrokerDescription
from strandline.vocabulary.metadata import TopicMetadata

GONE: Final = "broker-gone"
BACK: Final = "broker-back"
DRAINED: Final = "broker-drained"
READY: Final = "broker-ready"
CONTROLLER: Final = "controller-active"
SILENT: Final = "no-answer"
ANSWERS: Final = "answers-again"


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """What was seen to change. `broker` is a controller's id for CONTROLLER, and -1 if it is about all."""

    kind: str
    broker: int
    at_ms: int


class SeenState:
    """What was seen last, so that only a change is an event."""

    def __init__(self) -> None:
        self._controller: int | None = None
        self._partitions: dict[tuple[bool, str, int], str] = {}
        """Those that exist, with the ids of their topics."""

    def brokers(self, rows: Rows, described: Iterable[BrokerDescription], at_ms: int) -> Iterator[SeenEvent]:
        """Compares the brokers with what was seen of them before. The caller adds the events with `put`."""
        for each in described:
            row = rows.broker(each.endpoint.id)
            if row is None:
                continue
            alive, drained = row.alive.last, row.drain.last
            if alive is None or drained is None:
                row.alive.see(at_ms, each.alive)
                row.drain.see(at_ms, each.drained)
                continue
            if alive is not each.alive:
                yield SeenEvent(BACK if each.alive else GONE, each.endpoint.id, at_ms)
            if drained is not each.drained:
                yield SeenEvent(DRAINED if each.drained else READY, each.endpoint.id, at_ms)

    def controller(self, active: int | None, at_ms: int) -> Iterator[SeenEvent]:
        """Compares the active controller with the one before."""
        if active is not None and active != self._controller:
            if self._controller is not None:
                yield SeenEvent(CONTROLLER, active, at_ms)
            self._controller = active

    def partitions(self, rows: Rows, topics: Iterable[TopicMetadata], at_ms: int) -> bool:
        """Has each partition that exists have a row, with who leads it if no event says so. True if one was
        added or is gone."""
        now: dict[tuple[bool, str, int], str] = {}
        for topic in topics:
            for each in topic.partitions:
                row = rows.partition(topic.name, each.partition)
                if row is None:
                    continue
                now[row.key] = topic.topic_id
                row.lived(topic.topic_id, each.leader_epoch)
                row.exists = True
                row.replicas.saw(at_ms, len(each.replicas))
                if not row.brokers.issuperset(each.replicas):
                    row.brokers.update(each.replicas)
                row.leader.see(at_ms, each.leader, each.leader_epoch)
                row.isr.see(at_ms, rows.interned.one(each.isr), each.leader_epoch)
        gone = self._partitions.keys() - now
        for key in gone:
            if (row := rows.partitions.get(key)) is not None:
                row.exists = False
                row.missed(self._partitions[key], at_ms)
                if not row.events:
                    rows.partitions.drop(row)
        changed = bool(gone) or len(now) != len(self._partitions)
        self._partitions = now
        return changed


def put(rows: Rows, event: SeenEvent, ref: Ref) -> list[Row]:
    """Adds a change to its rows, and returns them."""
    if event.kind in (SILENT, ANSWERS):
        rows.answers.add(event.at_ms, event.kind == ANSWERS, ref)
        return []
    if event.kind == CONTROLLER or (row := rows.broker(event.broker)) is None:
        return []
    row.events.add(event.at_ms, event.kind, ref)
    if event.kind in (GONE, BACK):
        row.alive.add(event.at_ms, event.kind == BACK, ref)
    elif event.kind in (DRAINED, READY):
        row.drain.add(event.at_ms, event.kind == DRAINED, ref)
    return [row]
