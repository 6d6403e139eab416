"""Measures how long it took until acknowledged records could be read. Pure; a fact of a run, not a fault.

An acknowledged record is below the high watermark, so a reader by assignment that has received all records
before it can receive it at once. The measured time includes more than the log's part: the reader's lag and
the delays of the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

Partition = tuple[str, int]
"""Topic and partition."""


class Reading(NamedTuple):
    """A reader received a record of a partition that was assigned to it at `since_ms`."""

    reader: str
    topic: str
    partition: int
    offset: int
    at_ms: float
    since_ms: float


class Staleness(NamedTuple):
    """The time between a record's acknowledgement, or the assignment of `reader` if that was later, and its
    receipt."""

    topic: str
    partition: int
    offset: int
    reader: str
    ms: float


def longest(acked: Mapping[Partition, Mapping[int, float]], readings: Iterable[Reading]) -> list[Staleness]:
    """The longest time for each partition. `acked`: when each offset was acknowledged, by the clock of the
    readings.

    A record that was received before its acknowledgement arrived took no time. A record that was never
    received is not included; the checks cover it.
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
