"""What a producer measures."""

from __future__ import annotations

from functools import partial
from typing import Final

from strandline.client.metrics import ClientMetric, Window, counter, gauge
from strandline.ports import Clock

_gauge, _counter = partial(gauge, "producer"), partial(counter, "producer")

PRODUCER_METRICS: Final[tuple[ClientMetric, ...]] = (
    _counter(
        "record-send-total", "{record}", "Records that were acknowledged; with acks=0, that were written."
    ),
    _gauge("record-send-rate", "{record}/s", "The same, a second."),
    _counter("record-error-total", "{record}", "Records that ended with an error."),
    _gauge("record-error-rate", "{record}/s", "The same, a second."),
    _counter("outgoing-byte-total", "By", "Bytes of batches that were written, repetitions included."),
    _gauge("outgoing-byte-rate", "By/s", "The same, a second."),
    _gauge("batch-size-avg", "By", "The average size of a batch that was written."),
    _gauge("batch-size-max", "By", "The largest one."),
    _gauge("request-latency-avg", "ms", "The average time from writing a batch to its answer."),
    _gauge("request-latency-max", "ms", "The longest one."),
    _gauge("produce-throttle-time-avg", "ms", "The average delay of answers that were delayed by a quota."),
    _gauge("produce-throttle-time-max", "ms", "The longest one."),
    _gauge("requests-in-flight", "{batch}", "Batches that are written and not answered."),
    _gauge("buffer-total-bytes", "By", "The bound of the buffer: `buffer_bytes`."),
    _gauge(
        "buffer-available-bytes", "By", "Bytes of the buffer that no record waits in; at 0, `send` waits."
    ),
)


class ProducerMeasures:
    """The numbers of one producer."""

    __slots__ = ("_buffer_bytes", "answered_ms", "failed", "sent", "throttled_ms", "written_bytes")

    def __init__(self, clock: Clock, buffer_bytes: int) -> None:
        self._buffer_bytes = buffer_bytes
        self.sent = Window(clock)
        """Records of each batch that was acknowledged."""
        self.failed = Window(clock)
        """Records of each batch that failed."""
        self.written_bytes = Window(clock)
        """Bytes of each batch that was written."""
        self.answered_ms = Window(clock)
        """The time from writing to the answer of each batch."""
        self.throttled_ms = Window(clock)
        """Delays by quotas."""

    def read(self, buffered: int, in_flight: int) -> dict[str, float]:
        """`buffered`: bytes of records that have not ended. `in_flight`: batches without an answer."""
        sent, failed = self.sent.recent(), self.failed.recent()
        written, answered, throttled = (
            self.written_bytes.recent(), self.answered_ms.recent(), self.throttled_ms.recent(),
        )  # fmt: skip
        return {
            "record-send-total": self.sent.total,
            "record-send-rate": sent.rate,
            "record-error-total": self.failed.total,
            "record-error-rate": failed.rate,
            "outgoing-byte-total": self.written_bytes.total,
            "outgoing-byte-rate": written.rate,
            "batch-size-avg": written.average,
            "batch-size-max": written.maximum,
            "request-latency-avg": answered.average,
            "request-latency-max": answered.maximum,
            "produce-throttle-time-avg": throttled.average,
            "produce-throttle-time-max": throttled.maximum,
            "requests-in-flight": in_flight,
            "buffer-total-bytes": self._buffer_bytes,
            "buffer-available-bytes": max(0, self._buffer_bytes - buffered),
        }
