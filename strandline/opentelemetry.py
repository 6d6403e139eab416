"""Gives a client's metrics to OpenTelemetry: the extra `strandline[opentelemetry]`.

    async with Producer("localhost:9092") as producer:
        observe(producer)

A metric `record-send-total` of a producer becomes the instrument `kafka.producer.record_send_total`, as
OpenTelemetry's own bridge of Kafka's clients names them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from strandline.adapters.telemetry.metrics import Kind
from strandline.client.metrics import Measured

SCOPE = "strandline"


def observe(
    client: Measured,
    *,
    attributes: Mapping[str, str] | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> None:
    """Has a meter read the metrics of a producer, a consumer or a stream application whenever it collects.

    `attributes` tell clients of one process apart: `{"client.id": "orders"}`. `meter_provider` None: the
    global one. A client is not kept by this; once it is garbage, its series end. Call it once for a client.
    """
    meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
    seen, labels = weakref.ref(client), dict(attributes or {})
    for metric in client.METRICS:
        name = f"kafka.{metric.of}.{metric.name.replace('-', '_')}"
        read = [_reader(seen, metric.name, labels)]
        if metric.kind is Kind.COUNTER:
            _ = meter.create_observable_counter(name, read, metric.unit, metric.meaning)
        else:
            _ = meter.create_observable_gauge(name, read, metric.unit, metric.meaning)


def _reader(
    client: weakref.ref[Measured], name: str, labels: Mapping[str, str]
) -> Callable[[CallbackOptions], Iterator[Observation]]:
    def read(_: CallbackOptions) -> Iterator[Observation]:
        found = client()
        if found is not None and (value := found.metrics().get(name)) is not None:
            yield Observation(value, labels)

    return read
