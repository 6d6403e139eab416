"""Reads group events from the records of `__group_events`, and formats them as lines for people. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from strandline.ids import TopicPartition
from strandline.report.text.durations import age
from strandline.report.text.partition_names import compact
from strandline.report.text.times import time_of

VERSION: Final = 1
"""The version understood here. New fields and new events do not change it."""

_NEEDED: Final = {"event": str, "group": str, "generation": int, "at_ms": int}
_EVENT_WIDTH: Final = len("generation_started")


def read_event(value: bytes | None) -> dict[str, Any] | None:
    """All fields of an event, including unknown ones; None if it is no event of this version."""
    try:
        fields = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.get("version") != VERSION:
        return None
    return fields if all(type(fields.get(name)) is kind for name, kind in _NEEDED.items()) else None


def line_of(event: Mapping[str, Any], today: date) -> str:
    """The line of an event: time, event, group, generation, member, and details.

    Two spaces separate the columns; `-` stands for a missing value. An unknown event has a line too.
    """
    said = [_figures(event), _text(event, "reason")]
    if "caused_by" in event:
        said.append(f"caused by {event['caused_by']}")
    cells = [
        time_of(event["at_ms"], today),
        event["event"].ljust(_EVENT_WIDTH),
        event["group"],
        f"generation {event['generation']}",
        _text(event, "member") or "-",
        _text(event, "task") or _partitions(event.get("partitions")) or "-",
        ", ".join(filter(None, said)),
    ]
    line = "  ".join(cells).rstrip()
    return "".join(c if c.isprintable() else " " for c in line)


def _text(event: Mapping[str, Any], name: str) -> str:
    return str(event.get(name, ""))


def _partitions(given: Any) -> str:
    """The partitions of an event, by topic."""
    if given is None:
        return ""
    try:
        return compact([TopicPartition(topic, int(n)) for topic, numbers in given.items() for n in numbers])
    except (AttributeError, TypeError, ValueError):
        return str(given)


def _figures(event: Mapping[str, Any]) -> str:
    """How far a task's state is restored, if the event has it."""
    lag, rate, remaining_ms = (event.get(name) for name in ("lag", "records_per_s", "remaining_ms"))
    said: list[str] = []
    if isinstance(lag, int):
        said.append(f"lag {lag}")
    if isinstance(rate, int | float):
        said.append(f"{rate:.0f} records/s" if rate >= 10 else f"{rate:.1f} records/s")
    if isinstance(remaining_ms, int):
        said.append(f"{age(remaining_ms)} left")
    return ", ".join(said)
