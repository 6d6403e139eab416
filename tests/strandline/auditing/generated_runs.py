"""Generated runs of clients and a log: sound ones, made at random, and ways to break them.

A run is the input of an audit. `Making` plays a log with producers, readers that are assigned partitions,
members that hand them over, and records with an unknown outcome; it never breaks the log's promise.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from strandline.auditing.history import (
    Acked,
    Assigned,
    Ended,
    Event,
    Failed,
    History,
    Received,
    Sent,
    Unassigned,
    Watermark,
)
from strandline.auditing.reference import Logged, Span
from strandline.errors import Outcome

UNKNOWN_SHARE = 0.15


@dataclass(slots=True)
class FinishedRun:
    """Histories, the log as it is at last, and where it starts and ends."""

    histories: list[History] = field(default_factory=list)
    log: list[Logged] = field(default_factory=list)
    spans: dict[tuple[str, int], Span] = field(default_factory=dict)

    def renumbered(self) -> None:
        """Number all lines anew, after events were added or taken out."""
        for history in self.histories:
            history.events[:] = [replace(event, seq=seq) for seq, event in enumerate(history.events)]

    def write(self, folder: Path) -> list[Path]:
        """Each history as `strandline verify` writes it."""
        paths = []
        for history in self.histories:
            path = folder / f"{history.name}.jsonl"
            path.write_text("".join(line(event) for event in history.events))
            paths.append(path)
        return paths


def line(event: Event) -> str:
    """An event as JSON, with fields that an audit does not look at."""
    said: dict[str, Any] = {"at": 1, "monotonic_ms": event.seq / 8, "seq": event.seq, "topic": event.topic}
    match event:
        case Sent():
            said |= {"event": "sent", "record": event.record, "key": None, **_shown(event.value)}
        case Acked():
            place = {"partition": event.partition, "offset": event.offset}
            said |= {"event": "acked", "record": event.record, **place}
        case Failed():
            said |= {"event": "failed", "record": event.record, "outcome": event.outcome.value, "code": 1}
        case Assigned() | Unassigned():
            name = "assigned" if isinstance(event, Assigned) else "revoked"
            said |= {"event": name, "partitions": list(event.partitions)}
        case Received():
            place = {"partition": event.partition, "offset": event.offset}
            said |= {"event": "received", "timestamp": 5, **place, **_shown(event.value)}
        case Watermark():
            said |= {"event": "watermark", "partition": event.partition, "offset": event.offset}
            said |= {"proven": event.proven}
        case _:
            said |= {"event": "summary"}
    return json.dumps(said, ensure_ascii=False) + "\n"


def _shown(value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {"value": None}
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"value": base64.b64encode(value).decode(), "value_encoding": "base64"}


# --- sound stories ----------------------------------------------------------------------------


class _Reader:
    """`proven` is what it knows of high watermarks, by partition."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.position: dict[int, int] = {}
        self.proven: defaultdict[int, int] = defaultdict(int)


class Making:
    """A run on one topic, step by step. Two readers read all; the rest are members of a group."""

    def __init__(
        self, random: Random, topic: str, *, partitions: int = 2, producers: int = 2, members: int = 2
    ) -> None:
        self.random, self.topic = random, topic
        self.logs: list[list[bytes]] = [[] for _ in range(partitions)]
        self.producers = [self._client(f"producer-{n}") for n in range(producers)]
        self.pending: defaultdict[tuple[int, int], list[tuple[int, bytes]]] = defaultdict(list)
        self.readers = [_Reader(self._client(f"reader-{n}")) for n in range(2)]
        self.members = [_Reader(self._client(f"member-{n}")) for n in range(members)]
        self.sent = [0] * producers
        for reader in self.readers:
            self._assign(reader, dict.fromkeys(range(partitions), 0))
        self.rebalance()

    def _client(self, name: str) -> History:
        return History(f"{self.topic}-{name}")

    def _note(self, history: History, kind: Callable[..., Event], *facts: object) -> None:
        history.events.append(kind(len(history.events), self.topic, *facts))

    def send(self) -> None:
        """One record, to a partition, unanswered yet."""
        number = self.random.randrange(len(self.producers))
        record, self.sent[number] = self.sent[number], self.sent[number] + 1
        value = f"{number}:{record}".encode() + self.random.choice([b"", b"\xff", "Ü".encode()])
        self._note(self.producers[number], Sent, record, value)
        self.pending[number, self.random.randrange(len(self.logs))].append((record, value))

    def answer(self) -> None:
        """The oldest record of a producer for a partition is appended or not, and it hears of that or not."""
        waiting = [key for key, records in self.pending.items() if records]
        if not waiting:
            return
        number, partition = self.random.choice(waiting)
        record, value = self.pending[number, partition].pop(0)
        history, draw = self.producers[number], self.random.random()
        if draw < UNKNOWN_SHARE:
            if self.random.random() < 0.5:
                self._note(history, Failed, record, Outcome.UNKNOWN)
        elif draw < 2 * UNKNOWN_SHARE:
            self._note(history, Failed, record, self.random.choice([Outcome.FATAL, Outcome.RETRIABLE]))
            return
        else:
            known = self.random.random() > 0.05
            self._note(history, Acked, record, partition, len(self.logs[partition]) if known else -1)
        if draw > UNKNOWN_SHARE / 2:
            self.logs[partition].append(value)

    def read(self) -> None:
        """A reader reads a little."""
        reader = self.random.choice(self.readers + self.members)
        for partition, position in list(reader.position.items()):
            until = min(len(self.logs[partition]), position + self.random.randrange(4))
            for offset in range(position, until):
                self._note(reader.history, Received, partition, offset, self.logs[partition][offset])
            reader.position[partition] = until
            if until > position:
                reader.proven[partition] = max(reader.proven[partition], until)

    def ask(self) -> None:
        """A reader requests a high watermark, which may not be the very last one."""
        reader = self.random.choice(self.readers + self.members)
        for partition in reader.position:
            shown = self.random.randint(reader.proven[partition], len(self.logs[partition]))
            self._note(reader.history, Watermark, partition, shown, reader.proven[partition])
            reader.proven[partition] = shown

    def rebalance(self) -> None:
        """Partitions move to other members, which begin where the last one has committed, or before."""
        held = {
            partition: self.random.randint(max(0, position - 3), position)
            for member in self.members
            for partition, position in member.position.items()
        }
        for member in self.members:
            if member.position:
                self._note(member.history, Unassigned, tuple(member.position))
                member.position.clear()
        for partition in range(len(self.logs)):
            self._assign(self.random.choice(self.members), {partition: held.get(partition, 0)})

    def _assign(self, reader: _Reader, positions: dict[int, int]) -> None:
        self._note(reader.history, Assigned, tuple(positions))
        reader.position |= positions

    def finished_run(self, *, retention: bool = True) -> FinishedRun:
        """The input of an audit after the clients have ended, and perhaps after old records were deleted."""
        spans, log = {}, []
        for partition, values in enumerate(self.logs):
            start = self.random.randint(0, len(values) // 2) if retention else 0
            spans[self.topic, partition] = Span(start, len(values))
            log += [
                Logged(self.topic, partition, offset, values[offset]) for offset in range(start, len(values))
            ]
        clients = [*self.producers, *(reader.history for reader in self.readers + self.members)]
        for history in clients:
            if self.random.random() < 0.5:
                self._note(history, Ended)
        self.random.shuffle(clients)
        return FinishedRun(clients, log, spans)


def sound(random: Random, topic: str, steps: int = 60, **size: int) -> FinishedRun:
    """A run in which the log keeps its promise."""
    making = Making(random, topic, **size)
    what = [making.send, making.answer, making.read, making.ask, making.rebalance]
    for _ in range(steps):
        random.choices(what, [6, 6, 5, 1, 1])[0]()
    return making.finished_run(retention=random.random() < 0.5)


# --- harm -------------------------------------------------------------------------------------


def _events(finished_run: FinishedRun, kind: type[Event]) -> Iterator[tuple[History, int]]:
    for history in finished_run.histories:
        for number, event in enumerate(history.events):
            if isinstance(event, kind):
                yield history, number


def harm(random: Random, finished_run: FinishedRun) -> None:
    """Change something at random, which may or may not be a fault."""
    random.choice(_HARMS)(random, finished_run)
    finished_run.renumbered()


def _change(
    kind: type[Event], change: Callable[[Random, Any], Event]
) -> Callable[[Random, FinishedRun], None]:
    def changed(random: Random, finished_run: FinishedRun) -> None:
        there = list(_events(finished_run, kind))
        if there:
            history, number = random.choice(there)
            history.events[number] = change(random, history.events[number])

    return changed


def _omit(random: Random, finished_run: FinishedRun) -> None:
    history = random.choice(finished_run.histories)
    if history.events:
        del history.events[random.randrange(len(history.events))]


def _swap(random: Random, finished_run: FinishedRun) -> None:
    events = random.choice(finished_run.histories).events
    if len(events) > 1:
        at = random.randrange(len(events) - 1)
        events[at : at + 2] = events[at + 1], events[at]


def _repeat(random: Random, finished_run: FinishedRun) -> None:
    events = random.choice(finished_run.histories).events
    if events:
        events.insert(random.randrange(len(events)), random.choice(events))


def _skip(random: Random, finished_run: FinishedRun) -> None:
    """A reader is not given a record."""
    there = list(_events(finished_run, Received))
    if there:
        history, number = random.choice(there)
        del history.events[number]


def _send_again(random: Random, finished_run: FinishedRun) -> None:
    """A record has the value of another one."""
    sent = [
        (history, number, event)
        for history in finished_run.histories
        for number, event in enumerate(history.events)
        if isinstance(event, Sent)
    ]
    if sent:
        history, number, event = random.choice(sent)
        history.events[number] = replace(event, value=random.choice(sent)[2].value)


def _unlog(random: Random, finished_run: FinishedRun) -> None:
    if finished_run.log:
        del finished_run.log[random.randrange(len(finished_run.log))]


def _log_again(random: Random, finished_run: FinishedRun) -> None:
    if not finished_run.log:
        return
    again = random.choice(finished_run.log)
    lane = (again.topic, random.choice([partition for _, partition in finished_run.spans]))
    start, end = finished_run.spans[lane]
    finished_run.spans[lane] = Span(start, end + 1)
    finished_run.log.append(Logged(*lane, end, again.value))


def _cut(random: Random, finished_run: FinishedRun) -> None:
    lane = random.choice(list(finished_run.spans))
    start, end = finished_run.spans[lane]
    end = random.randint(start, end)
    finished_run.spans[lane] = Span(start, end)
    finished_run.log[:] = [each for each in finished_run.log if each[:2] != lane or each.offset < end]


def _forget_partition(random: Random, finished_run: FinishedRun) -> None:
    lane = random.choice(list(finished_run.spans))
    if len(finished_run.spans) > 1:
        del finished_run.spans[lane]
        finished_run.log[:] = [each for each in finished_run.log if each[:2] != lane]


def _near(random: Random, offset: int) -> int:
    return max(-1, offset + random.choice([-2, -1, 1, 2, 40]))


_HARMS: list[Callable[[Random, FinishedRun], None]] = [
    _omit,
    _swap,
    _repeat,
    _unlog,
    _log_again,
    _cut,
    _forget_partition,
    _change(Received, lambda random, event: replace(event, value=random.choice([None, b"", b"0:1", b"x"]))),
    _change(Received, lambda random, event: replace(event, offset=max(0, _near(random, event.offset)))),
    _change(Acked, lambda random, event: replace(event, offset=_near(random, event.offset))),
    _change(Acked, lambda random, event: Failed(event.seq, event.topic, event.record, Outcome.FATAL)),
    _change(Sent, lambda random, event: replace(event, value=random.choice([b"0:0", b"y"]))),
    _send_again,
    _skip,
    _change(Watermark, lambda random, event: replace(event, offset=max(0, _near(random, event.offset)))),
    _change(Failed, lambda random, event: replace(event, outcome=random.choice(list(Outcome)))),
]
