"""Reads the files of a round, which chaos writes: for its judge, for its page and for the console.

A strict reader refuses a folder in which a file is missing or cannot be read; others show what is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from strandline.auditing.checks import Finding
from strandline.auditing.cluster import Observation
from strandline.auditing.history import (
    Line,
    event_of,
    read_whole_lines,
)
from strandline.errors import StrandlineError
from strandline.vocabulary.state_changes import StateChangeEvent, load_event

TIMELINE: Final = "timeline.jsonl"
OBSERVATIONS: Final = "observations.jsonl"
STATE_CHANGES: Final = "state-changes.jsonl"
GROUP_EVENTS: Final = "group-events.jsonl"
FINDINGS: Final = "findings.jsonl"
STALENESS: Final = "staleness.jsonl"

T = TypeVar("T")
Fields = Mapping[str, Any]
"""The fields of a line."""


class BrokenEvidence(StrandlineError):
    """A file of a round is missing, or a line of it cannot be read; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the timeline. Fields that its event does not have keep their defaults."""

    at_ms: int
    event: str
    fault: int = -1
    """The fault's index in the plan."""
    kind: str = ""
    who: tuple[str, ...] = ()
    detail: str = ""
    took_ms: float | None = None
    partitions: tuple[str, ...] = ()


class RoundFiles:
    """The files of a round in the folder `out`. Their lines are JSON objects.

    The last line of a file is ignored if it is incomplete, since its writer may have been killed. With
    `strict`, every other unreadable line and every missing file raises BrokenEvidence. Without it, they are
    left out, and `unread` names what could not be read.
    """

    def __init__(self, out: Path, *, strict: bool) -> None:
        self.unread: list[str] = []
        self._out = out
        self._strict = strict

    def has(self, name: str) -> bool:
        return (self._out / name).is_file()

    def named(self, pattern: str) -> list[str]:
        """File names that match, sorted. With `strict`, raises BrokenEvidence if there are none."""
        names = sorted(path.name for path in self._out.glob(pattern))
        if self._strict and not names:
            raise BrokenEvidence(f"{self._out} has no {pattern}")
        return names

    def history(self, name: str) -> Iterator[Line]:
        """The lines of a client's history. With `strict`, raises InvalidHistory."""
        if not self._strict:
            yield from self.values(name, lambda fields: Line(event_of(fields), fields))
            return
        with (self._out / name).open("rb") as lines:
            yield from read_whole_lines(name, lines)

    def moments(self) -> Iterator[Moment]:
        return self.values(TIMELINE, _moment)

    def observations(self) -> Iterator[Observation]:
        return self.values(OBSERVATIONS, _observation)

    def state_changes(self) -> Iterator[StateChangeEvent]:
        return self.values(STATE_CHANGES, load_event)

    def findings(self) -> Iterator[Finding]:
        return self.values(FINDINGS, _finding)

    def values(self, name: str, value: Callable[[Fields], T], *, once: bool = False) -> Iterator[T]:
        """The values of a file's lines. With `once`, equal lines count as one."""
        if not self.has(name):
            if self._strict:
                raise BrokenEvidence(f"{self._out} has no {name}")
            return
        wrong: dict[int, str] = {}
        seen: set[bytes] = set()
        line = b""
        with (self._out / name).open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip() or line in seen:
                    continue
                if wrong and self._strict:
                    break
                if once:
                    seen.add(line)
                try:
                    fields = json.loads(line)
                    if not isinstance(fields, dict):
                        raise ValueError("not a JSON object")
                    found = value(fields)
                except (ValueError, LookupError, TypeError, AttributeError) as error:
                    if line.endswith(b"\n"):
                        wrong[number] = repr(error)
                    continue
                yield found
        if wrong:
            self._cannot_read(name, wrong)

    def _cannot_read(self, name: str, wrong: Mapping[int, str]) -> None:
        first, why = next(iter(wrong.items()))
        if self._strict:
            raise BrokenEvidence(f"{name}, line {first}: {why}")
        self.unread.append(f"{name}: {len(wrong)} lines cannot be read, the first of them is {first}")


def _moment(fields: Fields) -> Moment:
    took_ms = fields.get("took_ms")
    return Moment(
        at_ms=int(fields["at_ms"]),
        event=str(fields["event"]),
        fault=int(fields.get("fault", -1)),
        kind=str(fields.get("kind", "")),
        who=tuple(map(str, fields.get("who", ()))),
        detail=str(fields.get("detail") or ""),
        took_ms=None if took_ms is None else float(took_ms),
        partitions=tuple(map(str, fields.get("partitions", ()))),
    )


def _finding(fields: Fields) -> Finding:
    return Finding(
        check=str(fields["check"]),
        topic=str(fields["topic"]),
        partition=_number(fields, "partition"),
        offset=_number(fields, "offset"),
        detail=str(fields["detail"]),
    )


def _number(fields: Fields, name: str) -> int | None:
    return None if fields[name] is None else int(fields[name])


def _observation(fields: Fields) -> Observation:
    return Observation(
        at_ms=int(fields["at_ms"]),
        observer=str(fields["observer"]),
        topic=str(fields["topic"]),
        partition=int(fields["partition"]),
        leader=int(fields["leader"]),
        epoch=int(fields["epoch"]),
        isr=tuple(int(each) for each in fields["isr"]),
        watermark=_number(fields, "hw"),
        end=_number(fields, "leo"),
    )
