"""Metrics of the events that a process writes into internal topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline.adapters.telemetry.metrics import Sample, counter, gauge
from strandline.client.events.writer import EventWriter

WAITING: Final = gauge(
    "strandline_events_waiting", "Events that wait to be written to an internal topic.", "topic"
)
WRITTEN: Final = counter("strandline_events_written_total", "Events that were written.", "topic")
DROPPED: Final = counter(
    "strandline_events_dropped_total",
    "Events that were not written for lack of room, or refused; state changes that are kept elsewhere are "
    "recorded again.",
    "topic",
)

EVENT_METRICS: Final = (WAITING, WRITTEN, DROPPED)


def read_writer(writer: EventWriter) -> Iterator[Sample]:
    yield WAITING.is_now(writer.waiting, writer.topic)
    yield WRITTEN.is_now(writer.written, writer.topic)
    yield DROPPED.is_now(writer.dropped, writer.topic)
