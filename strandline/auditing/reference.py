"""Decides the checks for complete histories and the records of the log, all in memory. Pure.

It defines the checks: an implementation for larger data must have the same findings.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from strandline.auditing import checks
from strandline.auditing.checks import Check, Finding, in_order
from strandline.auditing.history import Acked, Assigned, Failed, History, Received, Sent, Watermark
from strandline.errors import Outcome


class Span(NamedTuple):
    """The start of a partition's log, and its high watermark, read after the histories were written."""

    start: int
    end: int


class Logged(NamedTuple):
    """A record of the log."""

    topic: str
    partition: int
    offset: int
    value: bytes | None


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int


Spans = Mapping[tuple[str, int], Span]
"""Spans by topic and partition. Other topics are not judged."""

NO_LOG: Final = Span(0, 0)
"""The span of a partition that the topic does not have."""


def findings(histories: Sequence[History], log: Iterable[Logged], spans: Spans) -> list[Finding]:
    """All findings, by check, topic and place; each violation once.

    `log` has all records of the topics within `spans`. Only the deletion of old records may remove records:
    in a compacted topic, missing records are normal.
    """
    run = _Run(histories, log, spans)
    found = {
        *_lost(run),
        *_duplicated(run),
        *_sent_out_of_order(run),
        *_read_out_of_order(run),
        *_aborted(run),
        *_inconsistent(run),
        *_watermarks_received(run),
        *_beyond_end(run),
        *_ambiguous(run),
    }
    return in_order(found)


# --- the facts --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Fate:
    """A record that a producer sent, and its outcome."""

    history: int
    topic: str
    record: int
    sent: bool = False
    """False: only its outcome is known, and not its value."""
    value: bytes | None = None
    partition: int | None = None
    offset: int | None = None
    outcome: Outcome = Outcome.UNKNOWN

    @property
    def denied(self) -> bool:
        """True if its producer was informed that it was not appended."""
        return self.outcome is not Outcome.UNKNOWN

    @property
    def place(self) -> Place | None:
        """The place at which it was acknowledged, if known."""
        if self.partition is None or self.offset is None or self.offset < 0:
            return None
        return Place(self.topic, self.partition, self.offset)


class _Witness(NamedTuple):
    """The source of a value at a place. The order of sources decides which one a finding names first."""

    history: int
    received: bool
    number: int
    """The number of the record or of the line."""
    value: bytes | None


class _Run:
    """Histories by type of event, and the log by place and by value."""

    def __init__(self, histories: Sequence[History], log: Iterable[Logged], spans: Spans) -> None:
        self.spans = spans
        self.names = [history.name for history in histories]
        topics = {topic for topic, _ in spans}
        self.events = [
            (number, event)
            for number, history in enumerate(histories)
            for event in history.events
            if event.topic in topics
        ]
        self.log: dict[Place, bytes | None] = {}
        self.places: defaultdict[tuple[str, bytes | None], list[Place]] = defaultdict(list)
        self.offsets: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for topic, partition, offset, value in sorted(log, key=lambda each: each[:3]):
            place = Place(topic, partition, offset)
            self.log[place] = value
            self.places[topic, value].append(place)
            self.offsets[topic, partition].append(offset)
        self.fates = self._fates()
        self.sends: defaultdict[tuple[str, bytes | None], list[_Fate]] = defaultdict(list)
        for fate in self.fates:
            if fate.sent:
                self.sends[fate.topic, fate.value].append(fate)

    def span(self, topic: str, partition: int) -> Span:
        return self.spans.get((topic, partition), NO_LOG)

    def _fates(self) -> list[_Fate]:
        """The records' fates, in the order of histories and records."""
        fates: dict[tuple[int, str, int], _Fate] = {}
        for history, event in self.events:
            if not isinstance(event, Sent | Acked | Failed):
                continue
            key = (history, event.topic, event.record)
            fate = fates.setdefault(key, _Fate(*key))
            match event:
                case Sent():
                    fate.sent, fate.value = True, event.value
                case Acked():
                    fate.partition, fate.offset = event.partition, event.offset
                case Failed():
                    fate.outcome = event.outcome
        return [fates[key] for key in sorted(fates)]

    def received(self) -> Iterator[tuple[int, Received]]:
        for history, event in self.events:
            if isinstance(event, Received):
                yield history, event

    def differs(self, place: Place, value: bytes | None) -> bool:
        """True if the log does not have this value there."""
        return place not in self.log or self.log[place] != value

    def witnesses(self) -> dict[Place, list[_Witness]]:
        """All sources of a value for a place, in order."""
        found: defaultdict[Place, list[_Witness]] = defaultdict(list)
        for fate in self.fates:
            if fate.place is not None and fate.sent:
                found[fate.place].append(_Witness(fate.history, False, fate.record, fate.value))
        for history, event in self.received():
            place = Place(event.topic, event.partition, event.offset)
            found[place].append(_Witness(history, True, event.seq, event.value))
        return {place: sorted(known, key=lambda each: each[:3]) for place, known in found.items()}


def _at(check: Check, place: Place, said: str, **facts: object) -> Finding:
    return Finding(check.name, *place, said.format(**facts))


# --- the checks -------------------------------------------------------------------------------


def _lost(run: _Run) -> Iterator[Finding]:
    for fate in run.fates:
        if fate.partition is None:
            continue
        span, name = run.span(fate.topic, fate.partition), run.names[fate.history]
        if fate.place is not None:
            if fate.place not in run.log and fate.place.offset >= span.start:
                facts = {"record": fate.record, "history": name, "start": span.start, "end": span.end}
                yield _at(checks.LOST, fate.place, checks.NOT_IN_LOG, **facts)
        elif fate.sent and span.start == 0 and not run.places.get((fate.topic, fate.value)):
            said = checks.NOWHERE_IN_LOG.format(record=fate.record, history=name)
            yield Finding(checks.LOST.name, fate.topic, fate.partition, None, said)


def _duplicated(run: _Run) -> Iterator[Finding]:
    for key, sends in run.sends.items():
        places = run.places.get(key, [])
        if len(places) <= len(sends):
            continue
        record, history = sends[0].record, run.names[sends[0].history]
        first = {"partition": places[0].partition, "offset": places[0].offset}
        for place in places[1:]:
            yield _at(
                checks.DUPLICATED, place, checks.ALSO_ELSEWHERE, record=record, history=history, **first
            )


def _sent_out_of_order(run: _Run) -> Iterator[Finding]:
    acked: defaultdict[tuple[int, str, int], list[tuple[int, Place]]] = defaultdict(list)
    for fate in run.fates:
        if fate.place is not None:
            acked[fate.history, fate.topic, fate.place.partition].append((fate.record, fate.place))
    for (history, _, _), ends in acked.items():
        for (earlier, before), (record, place) in pairwise(ends):
            if place.offset < before.offset:
                facts = {"record": record, "earlier": earlier, "offset": before.offset}
                yield _at(
                    checks.REORDERED, place, checks.SENT_OUT_OF_ORDER, history=run.names[history], **facts
                )


def _read_out_of_order(run: _Run) -> Iterator[Finding]:
    """Also finds skipped records."""
    last: dict[tuple[int, str, int], int] = {}
    for history, event in run.events:
        match event:
            case Assigned():
                for partition in event.partitions:
                    last.pop((history, event.topic, partition), None)
            case Received():
                key = (history, event.topic, event.partition)
                before, last[key] = last.get(key), event.offset
                if before is None:
                    continue
                name = run.names[history]
                if event.offset <= before:
                    place = Place(event.topic, event.partition, event.offset)
                    yield _at(checks.REORDERED, place, checks.READ_OUT_OF_ORDER, history=name, offset=before)
                for place in _between(run, event, before):
                    facts = {"history": name, "before": before, "after": event.offset}
                    yield _at(checks.UNSEEN, place, checks.PASSED_OVER, **facts)


def _between(run: _Run, event: Received, before: int) -> Iterator[Place]:
    """The records of the log after offset `before` and before the received one."""
    offsets = run.offsets.get((event.topic, event.partition), [])
    for offset in offsets[bisect_right(offsets, before) : bisect_left(offsets, event.offset)]:
        yield Place(event.topic, event.partition, offset)


def _aborted(run: _Run) -> Iterator[Finding]:
    """Judges only values that were never sent with another outcome."""
    denied = {key: sends for key, sends in run.sends.items() if all(fate.denied for fate in sends)}
    for key, sends in denied.items():
        for fate in sends:
            facts = {
                "record": fate.record,
                "history": run.names[fate.history],
                "outcome": fate.outcome.value,
            }
            for place in run.places.get(key, []):
                yield _at(checks.ABORTED, place, checks.DENIED_IN_LOG, **facts)
    for history, event in run.received():
        place = Place(event.topic, event.partition, event.offset)
        if not run.differs(place, event.value):
            continue
        for fate in denied.get((event.topic, event.value), []):
            facts = {
                "record": fate.record,
                "history": run.names[fate.history],
                "outcome": fate.outcome.value,
                "reader": run.names[history],
            }
            yield _at(checks.ABORTED, place, checks.DENIED_RECEIVED, **facts)


def _inconsistent(run: _Run) -> Iterator[Finding]:
    for place, known in run.witnesses().items():
        if place not in run.log:
            others = [witness for witness in known if witness.value != known[0].value]
            if others:
                names = {"history": run.names[known[0].history], "other": run.names[others[0].history]}
                yield _at(checks.INCONSISTENT, place, checks.DISAGREEING, **names)
            continue
        for witness in known:
            if not run.differs(place, witness.value):
                continue
            name = run.names[witness.history]
            if witness.received:
                yield _at(checks.INCONSISTENT, place, checks.RECEIVED_OTHERWISE, history=name)
            else:
                facts = {"record": witness.number, "history": name}
                yield _at(checks.INCONSISTENT, place, checks.ACKED_OTHERWISE, **facts)


def _watermarks_received(run: _Run) -> Iterator[Finding]:
    highest: dict[tuple[int, str, int], int] = {}
    for history, event in run.events:
        if isinstance(event, Watermark):
            key = (history, event.topic, event.partition)
            known = max(event.proven, highest.get(key, 0))
            if event.offset < known:
                facts = {"history": run.names[history], "watermark": event.offset, "known": known}
                place = Place(event.topic, event.partition, event.offset)
                yield _at(checks.WATERMARK, place, checks.WATERMARK_TOO_LOW, **facts)
            highest[key] = max(event.offset, highest.get(key, 0))


def _beyond_end(run: _Run) -> Iterator[Finding]:
    """The highest such offset of each reader and partition."""
    highest: dict[tuple[int, str, int], int] = {}
    for history, event in run.received():
        key = (history, event.topic, event.partition)
        highest[key] = max(event.offset, highest.get(key, 0))
    for (history, topic, partition), offset in highest.items():
        end = run.span(topic, partition).end
        if offset >= end:
            place = Place(topic, partition, offset)
            yield _at(checks.WATERMARK, place, checks.BEYOND_END, history=run.names[history], end=end)


def _ambiguous(run: _Run) -> Iterator[Finding]:
    for (topic, _), sends in run.sends.items():
        if len(sends) > 1:
            said = checks.SENT_TWICE.format(
                record=sends[0].record,
                history=run.names[sends[0].history],
                other_record=sends[-1].record,
                other=run.names[sends[-1].history],
            )
            yield Finding(checks.AMBIGUOUS.name, topic, None, None, said)
