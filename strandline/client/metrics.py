"""What a client measures of itself: plain numbers under Kafka's names.

The numbers are written on the client's event loop, and may be read from any thread. Rates, averages and
maxima are of the last 30 to 60 seconds, as in Kafka's clients; totals are of the client's whole life.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Protocol

from strandline.adapters.telemetry.metrics import Kind
from strandline.ports import Clock

WINDOW_S: Final = 30.0


class ClientMetric(NamedTuple):
    """One name of a client's metrics. A client lists its own in a tuple, from which docs/ takes its table."""

    of: str
    """The kind of client: `producer`, `consumer` or `streams`."""
    name: str
    kind: Kind
    unit: str
    """In the notation of OpenTelemetry (UCUM): `ms`, `s`, `By`, `{record}`."""
    meaning: str


class Measured(Protocol):
    """A client that measures itself."""

    METRICS: ClassVar[tuple[ClientMetric, ...]]

    def metrics(self) -> dict[str, float]:
        """The present values by name, at most one of each of `METRICS`."""
        ...


@dataclass(frozen=True, slots=True)
class Recent:
    """What was added within `seconds`."""

    count: int
    total: float
    maximum: float
    seconds: float

    @property
    def average(self) -> float:
        """0 if nothing was added."""
        return self.total / self.count if self.count else 0.0

    @property
    def rate(self) -> float:
        """The total of a second."""
        return self.total / max(self.seconds, 1.0)


class _Half:
    """At most WINDOW_S of values."""

    __slots__ = ("began", "count", "maximum", "total")

    def __init__(self, began: float) -> None:
        self.began = began
        self.count = 0
        self.total = 0.0
        self.maximum = 0.0


class Window:
    """Values of the last 30 to 60 seconds, and sums of all."""

    __slots__ = ("_clock", "_halves", "count", "total")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        now = clock.monotonic()
        self._halves = (_Half(now), _Half(now))
        self.count = 0
        self.total = 0.0

    def add(self, value: float) -> None:
        now = self._clock.monotonic()
        if now - self._halves[1].began >= WINDOW_S:
            self._halves = (self._halves[1], _Half(now))
        half = self._halves[1]
        half.count += 1
        half.total += value
        half.maximum = max(half.maximum, value)
        self.count += 1
        self.total += value

    def recent(self) -> Recent:
        """Changes nothing, so that any thread may ask."""
        now = self._clock.monotonic()
        halves = [half for half in self._halves if now - half.began < 2 * WINDOW_S]
        return Recent(
            sum(half.count for half in halves),
            sum(half.total for half in halves),
            max((half.maximum for half in halves), default=0.0),
            max((now - half.began for half in halves), default=WINDOW_S),
        )


def gauge(of: str, name: str, unit: str, meaning: str) -> ClientMetric:
    return ClientMetric(of, name, Kind.GAUGE, unit, meaning)


def counter(of: str, name: str, unit: str, meaning: str) -> ClientMetric:
    assert name.endswith("-total"), name
    return ClientMetric(of, name, Kind.COUNTER, unit, meaning)
