"""Finds the way of a record in the lines of brokers' logs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from strandline.broker.core.record_steps import EVENT, RecordStep, Step

ORDER: Final = {step: number for number, step in enumerate(Step)}


class Seen(NamedTuple):
    """A step, and when it was: microseconds since 1970 by the broker's clock. Clocks of brokers differ."""

    at_us: int
    step: RecordStep


def way(lines: Iterable[str], topic: str, partition: int, offset: int | None = None) -> list[Seen]:
    """The steps of one record, by time: of the one at the offset, or of the last one that there is.

    Other lines are passed over, and so is what stands before a line's JSON, as tools put a name there.
    """
    latest, found = -1 if offset is None else offset, list[Seen]()
    for seen in steps(lines):
        step = seen.step
        if (step.topic, step.partition) != (topic, partition) or step.offset < latest:
            continue
        if step.offset > latest:
            if offset is not None:
                continue
            latest, found = step.offset, []
        found.append(seen)
    return sorted(found, key=lambda seen: (seen.at_us, ORDER[seen.step.step]))


def steps(lines: Iterable[str]) -> Iterator[Seen]:
    """Those that the lines have."""
    for line in lines:
        if EVENT not in line:
            continue
        try:
            fields = json.loads(line[line.index("{") :])
            yield Seen(_at_us(fields), RecordStep.load(fields))
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
            continue


def _at_us(fields: dict[str, Any]) -> int:
    """Raises KeyError, TypeError, ValueError, OverflowError."""
    written = datetime.fromisoformat(fields["timestamp"])
    return round(written.timestamp() * 1e6) - int(fields.get("earlier_us", 0))


def detail(step: RecordStep) -> str:
    """What else there is to a step, for people."""
    if step.error is not None:
        return step.error
    if step.acks is not None:
        return f"acks {'all' if step.acks < 0 else step.acks}"
    if step.follower is not None:
        return f"{'to' if step.step is Step.SENT else 'by'} broker {step.follower}"
    return ""
