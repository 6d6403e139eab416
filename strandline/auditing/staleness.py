"""How long it took until what was acknowledged could be read. Pure; a fact of a run, and no fault.

An acknowledged record is below the high watermark, so whoever reads a partition by assignment, and has
received all before it, can be given it at once. What is measured is more than the log's part: how far
behind the reader was, and what the network did to it, are in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

Partition = tuple[str, int]
"""Topic and partition."""


class Reading(NamedTuple):
    """A reader was given a record of a partition, to which it was assigned at `since_ms`."""

    reader: str
    topic: str
    partition: int
    offset: int
    at_ms: float
    since_ms: float


class Staleness(NamedTuple):
    """For so long a record had been acknowledged, and `reader` assigned, when it was given it."""

    topic: str
    partition: int
    offset: int
    reader: str
    ms: float


def longest(acked: Mapping[Partition, Mapping[int, float]], readings: Iterable[Reading]) -> list[Staleness]:
    """For each partition the longest time. `acked`: when each offset was acknowledged, by the clock of the
    readings.

    What was given before its acknowledgement had arrived took no time; what was never given is not in here:
    that is for the checks.
    """
    found: dict[Partition, Staleness] = {}
    for each in readings:
        place = (each.topic, each.partition)
        at = acked.get(place, {}).get(each.offset)
        if at is None:
            continue
        took = max(0.0, each.at_ms - max(at, each.since_ms))
        if place not in found or took > found[place].ms:
            found[place] = Staleness(*place, each.offset, each.reader, took)
    return [found[place] for place in sorted(found)]
