"""Metrics as plain values: the counters of a service, and the samples of a scrape.

A service counts in plain integers and floats, on its event loop, and reads its live objects at a
scrape. This module does not depend on Prometheus: `prometheus_text` formats the samples, on another
thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Final, NamedTuple

LATENCY_BOUNDS_MS: Final = (0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
"""Upper bounds of a latency histogram's buckets; one more bucket takes larger values."""


class Kind(Enum):
    GAUGE = "gauge"
    COUNTER = "counter"
    """Its name ends in `_total`; it never decreases while the process and its labels live."""
    HISTOGRAM = "histogram"


class Histogram:
    """Counts values by bucket."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float] = LATENCY_BOUNDS_MS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read(self) -> Buckets:
        """A snapshot; the histogram may change afterwards."""
        return Buckets(self._bounds, tuple(self._counts), self._sum)


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram at one moment. `counts` are for each bucket alone, not cumulative; there is one
    more of them than `bounds`."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric name with its meaning. A service lists its metrics in a tuple, from which docs/
    takes its table."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()

    def is_now(self, value: float | Buckets, *labels: str) -> Sample:
        """A sample of this metric, with one text for each label."""
        return Sample(self, labels, value)


class Sample(NamedTuple):
    """One value of a metric. It is a tuple because one reading makes thousands of them."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Buckets


class Reading:
    """The samples of one turn of a service's event loop. Iterating it costs the loop nothing: threads of
    scrapes do it, several times for a reading that they share."""

    def __init__(self, samples: Sequence[Sample], *later: Iterable[Sample]) -> None:
        """`later`: samples that are made only then, of numbers that were read in that turn."""
        self._parts = (samples, *later)

    def __iter__(self) -> Iterator[Sample]:
        return chain.from_iterable(self._parts)


def gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, Kind.GAUGE, meaning, labels)


def counter(name: str, meaning: str, *labels: str) -> Metric:
    assert name.endswith("_total"), name
    return Metric(name, Kind.COUNTER, meaning, labels)


def histogram(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, Kind.HISTOGRAM, meaning, labels)
