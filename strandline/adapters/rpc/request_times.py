"""Measures how long requests take: one histogram for each kind of request.

A listener times calls of one request and one answer; a service times the requests of its own streams, since
one stream carries many of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.adapters.telemetry.metrics import Histogram, Sample, counter, histogram
from strandline.ports import Clock

TOTAL_TIME_MS: Final = histogram(
    "kafka_network_requestmetrics_totaltimems",
    "How long requests took to be answered, milliseconds, long polls included; all kinds of `request` are "
    "the names of calls, `Produce` and `Fetch` for those within streams.",
    "request",
)
REQUESTS: Final = counter(
    "kafka_network_requestmetrics_requests_total", "Requests of each kind that were answered.", "request"
)

REQUEST_METRICS: Final = (TOTAL_TIME_MS, REQUESTS)


class RequestTimes:
    """The histograms of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._histograms: dict[str, Histogram] = {}

    def of(self, request: str) -> Histogram:
        """The histogram of this kind of request, milliseconds."""
        found = self._histograms.get(request)
        if found is None:
            found = self._histograms[request] = Histogram()
        return found

    def observe(self, request: str, milliseconds: float) -> None:
        """Count one request of this kind, and its duration."""
        self.of(request).observe(milliseconds)

    def now(self) -> float:
        """Seconds; an argument of `since_ms`."""
        return self._clock.monotonic()

    def since_ms(self, began: float) -> float:
        return (self._clock.monotonic() - began) * 1000

    def read(self) -> Sequence[Sample]:
        found = [(name, each.read()) for name, each in self._histograms.items()]
        return [
            *(TOTAL_TIME_MS.is_now(times, name) for name, times in found),
            *(REQUESTS.is_now(sum(times.counts), name) for name, times in found),
        ]
