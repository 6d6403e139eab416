"""Records sent and received, over time. Pure; times are milliseconds since one moment."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from strandline.ids import TopicPartition
from strandline_lab.report.events import Sender, Sending, SendOutcome
from strandline_lab.report.spans import Span

BIN_MS: Final = 500
"""The time that one point of a curve covers."""


@dataclass(frozen=True, slots=True)
class SenderFact:
    """Counts of one producer's records by outcome."""

    name: str
    sent: int
    by_outcome: Mapping[SendOutcome, int]


@dataclass(frozen=True, slots=True)
class Rate:
    """Records a second in the bin that begins at `at_ms`."""

    at_ms: float
    per_s: float


@dataclass(frozen=True, slots=True)
class Latency:
    """Times in ms from sent to acknowledged, for records sent in the bin that begins at `at_ms`."""

    at_ms: float
    p50: float
    p99: float
    most: float


def loaded(sendings: Sequence[Sending]) -> Span | None:
    """The time from the first record sent to the last; None if there is none."""
    times = [each.sent_ms for each in sendings]
    return Span(min(times), max(times)) if times else None


def acks_of(sendings: Iterable[Sending]) -> dict[TopicPartition, list[float]]:
    """When records of each partition were acknowledged, ascending."""
    acks: dict[TopicPartition, list[float]] = defaultdict(list)
    for each in sendings:
        if each.outcome is SendOutcome.ACKED and each.place is not None and each.ended_ms is not None:
            acks[each.place].append(each.ended_ms)
    return {place: sorted(times) for place, times in acks.items()}


def gaps_of(acks: Sequence[float], load: Span | None, known_ms: float | None) -> list[Span]:
    """The times between acknowledgements of one partition while there was load, including those at both ends.
    A partition that was first seen at `known_ms` counts from then."""
    if load is None:
        return []
    first = min(load.to_ms, max(load.from_ms, known_ms or load.from_ms))
    inside = acks[bisect_left(acks, first) : bisect_right(acks, load.to_ms)]
    return [Span(before, after) for before, after in pairwise((first, *inside, load.to_ms)) if after > before]


def sender_fact(sender: Sender) -> SenderFact:
    """Counts a producer's records by outcome."""
    counts = dict.fromkeys(SendOutcome, 0)
    for each in sender.sendings:
        counts[each.outcome] += 1
    return SenderFact(sender.name, len(sender.sendings), counts)


def rates(times_ms: Iterable[float], span: Span, *, gapless: bool = True) -> tuple[Rate, ...]:
    """Rates bin by bin over the whole span, or only the bins with events. Empty if there are no events."""
    counts: dict[int, int] = defaultdict(int)
    for at_ms in times_ms:
        if span.from_ms <= at_ms <= span.to_ms:
            counts[int((at_ms - span.from_ms) // BIN_MS)] += 1
    if not counts:
        return ()
    bins = range(int(span.took_ms // BIN_MS) + 1) if gapless else sorted(counts)
    return tuple(Rate(span.from_ms + bin * BIN_MS, counts[bin] * 1000 / BIN_MS) for bin in bins)


def latencies_of(sendings: Iterable[Sending], span: Span) -> tuple[Latency, ...]:
    """Latencies of acknowledged records, by the time they were sent."""
    bins: dict[int, list[float]] = defaultdict(list)
    for each in sendings:
        if each.outcome is SendOutcome.ACKED and each.took_ms is not None:
            bins[int((each.sent_ms - span.from_ms) // BIN_MS)].append(each.took_ms)
    return tuple(
        Latency(span.from_ms + bin * BIN_MS, percentile(took, 0.5), percentile(took, 0.99), max(took))
        for bin, took in sorted(bins.items())
    )


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that this share of all values does not exceed (nearest rank)."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(len(ranked) * share) - 1)]
