"""The files of a round, as far as they are there and can be read.

`chaos/evidence.py` reads most of them too, but a judge must refuse what is incomplete. Here a round
that broke off still gets a page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from strandline.chaos.core.plan import Plan, load
from strandline.chaos.report.told import (
    Election,
    Found,
    Moment,
    Observation,
    Outcome,
    Reader,
    Sender,
    Sending,
    Told,
)
from strandline.errors import Outcome as Said
from strandline.ids import TopicPartition

T = TypeVar("T")

Facts = Mapping[str, Any]
"""A line, as JSON."""


def read_round(out: Path) -> Told:
    """All of `out`. What is missing counts as empty; what cannot be read is named in `unread`."""
    files = _Files(out)
    return Told(
        name=out.name,
        plan=files.plan(),
        command=files.command(),
        moments=tuple(files.lines("timeline.jsonl", _moment)),
        observations=tuple(files.lines("observations.jsonl", _observation)),
        elections=tuple(dict(files.lines("state-changes.jsonl", _election)).values()),
        senders=tuple(
            Sender(name, _sendings(files.lines(name, _step))) for name in files.named("produce-*.jsonl")
        ),
        readers=tuple(_reader(name, files.lines(name, _heard)) for name in files.named("consume-*.jsonl")),
        findings=tuple(files.lines("findings.jsonl", _found)) if files.has("findings.jsonl") else None,
        staleness=dict(files.lines("staleness.jsonl", lambda said: (_place(said), float(said["ms"])))),
        unread=tuple(files.unread),
    )


class _Files:
    """Those of one round, and what of them could not be read."""

    def __init__(self, out: Path) -> None:
        self.unread: list[str] = []
        self._out = out

    def has(self, name: str) -> bool:
        return (self._out / name).is_file()

    def named(self, pattern: str) -> list[str]:
        return sorted(path.name for path in self._out.glob(pattern))

    def plan(self) -> Plan | None:
        """None if it is missing or broken."""
        try:
            return load((self._out / "plan.json").read_text())
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            self.unread.append(f"plan.json: {type(error).__name__}: {error}")
            return None

    def command(self) -> str:
        path = self._out / "command.txt"
        return path.read_text(errors="replace").strip() if path.is_file() else ""

    def lines(self, name: str, made: Callable[[Facts], T | None]) -> Iterator[T]:
        """What `made` makes of each line that is something to it. Half a line at the end is no line: its
        writer may have been killed."""
        if not self.has(name):
            return
        wrong: list[int] = []
        with (self._out / name).open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    value = made(json.loads(line))
                except (ValueError, LookupError, TypeError, AttributeError):
                    if line.endswith(b"\n"):
                        wrong.append(number)
                    continue
                if value is not None:
                    yield value
        if wrong:
            self.unread.append(f"{name}: {len(wrong)} lines cannot be read, the first of them is {wrong[0]}")


# --- a file's lines -----------------------------------------------------------------------------


def _moment(said: Facts) -> Moment:
    took_ms = said.get("took_ms")
    return Moment(
        at_ms=int(said["at_ms"]),
        event=str(said["event"]),
        fault=int(said.get("fault", -1)),
        kind=str(said.get("kind", "")),
        who=tuple(map(str, said.get("who", ()))),
        detail=str(said.get("detail") or ""),
        took_ms=None if took_ms is None else float(took_ms),
        partitions=tuple(map(str, said.get("partitions", ()))),
    )


def _observation(said: Facts) -> Observation:
    return Observation(
        at_ms=int(said["at_ms"]),
        observer=str(said.get("observer", "")),
        place=_place(said),
        leader=int(said["leader"]),
        epoch=int(said["epoch"]),
        isr=frozenset(map(int, said["isr"])),
        hw=None if said.get("hw") is None else int(said["hw"]),
    )


def _found(said: Facts) -> Found:
    partition, offset = (
        None if said.get(name) is None else int(said[name]) for name in ("partition", "offset")
    )
    return Found(str(said["check"]), str(said["topic"]), partition, offset, str(said["detail"]))


def _place(said: Facts) -> TopicPartition:
    return TopicPartition(str(said["topic"]), int(said["partition"]))


def _election(said: Facts) -> tuple[str, Election] | None:
    """With its id: who tells the same again tells it with the same one."""
    if said["command"] != "elect-leader":
        return None
    unclean = bool(said.get("unclean"))
    return str(said["id"]), Election(int(said["at"]), _place(said), int(said["broker"]), unclean)


class _Step(NamedTuple):
    """A record was sent (no outcome), acknowledged, or failed."""

    record: int
    at_ms: int
    monotonic_ms: float
    outcome: Outcome | None = None
    place: TopicPartition | None = None


def _step(said: Facts) -> _Step | None:
    if said["event"] not in ("sent", "acked", "failed"):
        return None
    step = _Step(int(said["record"]), int(said["at"]), float(said["monotonic_ms"]))
    if said["event"] == "acked":
        return step._replace(outcome=Outcome.ACKED, place=_place(said))
    if said["event"] == "failed":
        unknown = said["outcome"] == Said.UNKNOWN.value
        return step._replace(outcome=Outcome.UNKNOWN if unknown else Outcome.FAILED)
    return step


def _sendings(steps: Iterable[_Step]) -> tuple[Sending, ...]:
    """In the order of sending. An answer to what nobody sent is none."""
    sendings: dict[int, Sending] = {}
    sent_at: dict[int, float] = {}
    for step in steps:
        if step.outcome is None:
            sent_at[step.record] = step.monotonic_ms
            sendings[step.record] = Sending(step.at_ms, Outcome.UNANSWERED)
        elif step.record in sendings:
            took_ms = step.monotonic_ms - sent_at[step.record]
            sent_ms = sendings[step.record].sent_ms
            sendings[step.record] = Sending(sent_ms, step.outcome, step.at_ms, took_ms, step.place)
    return tuple(sendings.values())


def _heard(said: Facts) -> int | str | None:
    """When a record was received, or the error that a reader ended with."""
    if said["event"] == "error":
        return f"{said['error']}: {said['message']}"
    return int(said["at"]) if said["event"] == "received" else None


def _reader(name: str, heard: Iterable[int | str]) -> Reader:
    times: list[int] = []
    error = ""
    for each in heard:
        if isinstance(each, str):
            error = each
        else:
            times.append(each)
    return Reader(name, tuple(times), error)
