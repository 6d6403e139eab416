"""Metrics as plain values: what is counted while a service works, and what a scrape is given.

A service counts in plain integers and floats, on its event loop, and reads its own live objects when it is
asked. Nothing here knows Prometheus: `metrics_server` turns what was read into text, on another thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

LATENCY_BOUNDS_MS: Final = (0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
"""Upper ends of a latency histogram's buckets; what takes longer goes into one more."""


class Kind(Enum):
    GAUGE = "gauge"
    COUNTER = "counter"
    """Its name ends in `_total`; it never falls while the process and its labels live."""
    HISTOGRAM = "histogram"


class Histogram:
    """How many values fell below each bound."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float] = LATENCY_BOUNDS_MS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read(self) -> Buckets:
        """As it is now; it may go on changing."""
        return Buckets(self._bounds, tuple(self._counts), self._sum)


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram at one moment. `counts` are of each bucket alone, and one longer than `bounds`."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


@dataclass(frozen=True, slots=True)
class Metric:
    """One name with its meaning. A service lists its own in a tuple, which docs/ takes its table from."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()

    def is_now(self, value: float | Buckets, *labels: str) -> Sample:
        """A value, with one text for each label."""
        return Sample(self, labels, value)


class Sample(NamedTuple):
    """A tuple, for a reading makes thousands."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Buckets


def gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, Kind.GAUGE, meaning, labels)


def counter(name: str, meaning: str, *labels: str) -> Metric:
    assert name.endswith("_total"), name
    return Metric(name, Kind.COUNTER, meaning, labels)


def histogram(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, Kind.HISTOGRAM, meaning, labels)
