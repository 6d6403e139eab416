"""Histories: the lines of `strandline verify produce` and `verify consume` as typed events.

A history is one run of one client, in one file. A killed client may leave half a line at the end, which is
ignored. Any other unreadable line is an error that names its place.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from strandline.errors import Outcome, StrandlineError


class InvalidHistory(StrandlineError):
    """A line of a history cannot be read; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a history. `seq` rises by one a line."""

    seq: int
    topic: str


@dataclass(frozen=True, slots=True)
class Sent(Event):
    """A producer sends record number `record`, which has no answer yet. `partition` is the producer's choice;
    None if it chose none, or the history does not have it."""

    record: int
    value: bytes | None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Acked(Event):
    """A record was acknowledged. `offset` is -1 if the broker no longer knew it."""

    record: int
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """A record failed. Only with an unknown outcome may it have been appended."""

    record: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Assigned(Event):
    """A reader begins to read these partitions, each from its present position."""

    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unassigned(Event):
    """A reader gave these partitions up (`revoked`, `in_order`), or they were taken from it (`lost`)."""

    partitions: tuple[int, ...]
    in_order: bool = True


@dataclass(frozen=True, slots=True)
class Received(Event):
    """A reader received a record."""

    partition: int
    offset: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Handled(Event):
    """A member has finished with a record that it received. A member reports either all of them or none."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class CommitAcked(Event):
    """A member's commit was acknowledged. `offset` is that of the next record to read."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Watermark(Event):
    """A reader received the high watermark `offset`. Before its request, it had received all records below
    `proven`, so the high watermark is at least that; 0 if it had received none."""

    partition: int
    offset: int
    proven: int


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """A client's last line: its `error`, or its `summary`."""


@dataclass(slots=True)
class History:
    """All events of one client, in order. `name` is its name in findings: the file's path."""

    name: str
    events: list[Event] = field(default_factory=list)


# --- lines ------------------------------------------------------------------------------------

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "sent": ("record", "value"),
    "acked": ("record", "partition", "offset"),
    "failed": ("record", "outcome"),
    "assigned": ("partitions",),
    "revoked": ("partitions",),
    "lost": ("partitions",),
    "received": ("partition", "offset", "value"),
    "handled": ("partition", "offset"),
    "commit_acked": ("partition", "offset"),
    "watermark": ("partition", "offset", "proven"),
    "error": (),
    "summary": (),
}
"""The fields that are read, by event; all events also have `seq` and `topic`. Only `value` may be null."""

LOST: Final = "lost"

BIG: Final = 64
SMALL: Final = 32
"""Bits of a number with its sign: partition numbers are small, all others big."""

OUTCOMES: Final = {outcome.value: outcome for outcome in Outcome}


class Line(NamedTuple):
    """A line: its event, and all of its fields, including those that no audit of a log uses."""

    event: Event
    fields: Mapping[str, Any]


def parse(line: bytes) -> Event:
    """The event of a line. Raises ValueError, which describes the error."""
    return parse_whole(line).event


def parse_whole(line: bytes) -> Line:
    """A line. Raises ValueError, which describes the error."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:  # also if it is not UTF-8, or nested too deeply
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    return Line(event_of(fields), fields)


def event_of(fields: Mapping[str, Any]) -> Event:
    """The event of a line's fields. Raises ValueError, which describes the error."""
    name = fields.get("event")
    if not isinstance(name, str) or name not in FIELDS:
        raise ValueError(f"there is no event {name!r}; known are {', '.join(FIELDS)}")
    facts = [_FACTS[each](fields, each) for each in FIELDS[name]]
    if name == LOST:
        facts.append(False)
    return _EVENTS[name](_whole(fields, "seq"), _text(fields, "topic"), *facts)


def read_lines(name: str, lines: Iterable[bytes]) -> Iterator[Event]:
    """The events of a file's lines. Raises InvalidHistory for an unreadable line, except the last one, and
    for a second beginning: two runs in one file are not one history."""
    return (line.event for line in read_whole_lines(name, lines))


def read_whole_lines(name: str, lines: Iterable[bytes]) -> Iterator[Line]:
    """As `read_lines`, with all fields."""
    wrong: str | None = None
    begun = False
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        if wrong is not None:
            raise InvalidHistory(wrong)
        try:
            line = parse_whole(text)
        except ValueError as error:
            wrong = f"{name}, line {number}: {error}"
            continue
        if line.event.seq == 0 and begun:
            raise InvalidHistory(
                f"{name}, line {number}: a second run begins here; each has a file of its own"
            )
        begun = True
        yield line


def read(path: Path, name: str | None = None) -> History:
    """Reads a file. Raises InvalidHistory, OSError."""
    with path.open("rb") as lines:
        called = name or str(path)
        return History(called, list(read_lines(called, lines)))


# --- fields -----------------------------------------------------------------------------------


def _whole(fields: Mapping[str, Any], name: str) -> int:
    found = fields.get(name)
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValueError(f"{name} is {found!r} and not a whole number")
    return _within(found, name, BIG)


def _small(fields: Mapping[str, Any], name: str) -> int:
    return _within(_whole(fields, name), name, SMALL)


def _within(number: int, name: str, bits: int) -> int:
    if number.bit_length() >= bits:
        raise ValueError(f"{name} is a number of more than {bits} bits")
    return number


def _text(fields: Mapping[str, Any], name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str):
        raise ValueError(f"{name} is {found!r} and not a text")
    return found


def _partitions(fields: Mapping[str, Any], name: str) -> tuple[int, ...]:
    found = fields.get(name)
    if not isinstance(found, list) or not all(type(each) is int for each in found):
        raise ValueError(f"{name} is {found!r} and not a list of partitions")
    return tuple(_within(each, name, SMALL) for each in found)


def _outcome(fields: Mapping[str, Any], name: str) -> Outcome:
    found = fields.get(name)
    if not isinstance(found, str) or found not in OUTCOMES:
        raise ValueError(f"{name} is {found!r}, not one of {', '.join(OUTCOMES)}")
    return OUTCOMES[found]


def _bytes(fields: Mapping[str, Any], name: str) -> bytes | None:
    """Text, or base64 if a field says so (as `strandline.cli.shell.output.shown` writes it)."""
    encoding = fields.get(f"{name}_encoding")
    if encoding not in (None, "base64"):
        raise ValueError(f"{name}_encoding is {encoding!r}, not base64")
    if fields.get(name) is None:
        return None
    text = _text(fields, name)
    try:
        return base64.b64decode(text, validate=True) if encoding else text.encode()
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(f"{name}: {error}") from None


_FACTS: Final[Mapping[str, Callable[[Mapping[str, Any], str], Any]]] = {
    "record": _whole,
    "partition": _small,
    "offset": _whole,
    "proven": _whole,
    "value": _bytes,
    "outcome": _outcome,
    "partitions": _partitions,
}
_EVENTS: Final[Mapping[str, Callable[..., Event]]] = {
    "sent": Sent,
    "acked": Acked,
    "failed": Failed,
    "assigned": Assigned,
    "revoked": Unassigned,
    "lost": Unassigned,
    "received": Received,
    "handled": Handled,
    "commit_acked": CommitAcked,
    "watermark": Watermark,
    "error": Ended,
    "summary": Ended,
}
