"""Writes a service's samples as Prometheus' text, with prometheus_client. No other module uses that
library.

The server of metrics imports this module when it starts: a process without metrics does not load the
library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import make_wsgi_app
from prometheus_client.registry import Collector, CollectorRegistry

from strandline.adapters.telemetry.metrics import Buckets, Kind, Metric, Sample


def text_application(
    metrics: Sequence[Metric], samples: Callable[[], Iterable[Sample]]
) -> Callable[..., Iterable[bytes]]:
    """A WSGI application that answers with `samples()` and with figures of this process.

    It raises what `samples` raises.
    """
    registry = CollectorRegistry()
    registry.register(_Samples(metrics, samples))
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return make_wsgi_app(registry)


class _Samples(Collector):
    """prometheus_client's view of a service. It is called on the threads of scrapes."""

    def __init__(self, metrics: Sequence[Metric], samples: Callable[[], Iterable[Sample]]) -> None:
        self._metrics = metrics
        self._samples = samples

    def describe(self) -> Iterable[Family]:
        return [_family(metric) for metric in self._metrics]

    def collect(self) -> Iterable[Family]:
        families = {metric: _family(metric) for metric in self._metrics}
        for sample in self._samples():
            _add(families[sample.metric], sample)
        return families.values()


def _family(metric: Metric) -> Family:
    match metric.kind:
        case Kind.GAUGE:
            return GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        case Kind.COUNTER:
            return CounterMetricFamily(
                metric.name.removesuffix("_total"), metric.meaning, labels=metric.labels
            )
        case Kind.HISTOGRAM:
            return HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)


def _add(family: Family, sample: Sample) -> None:
    value = sample.value
    if isinstance(family, HistogramMetricFamily):
        assert isinstance(value, Buckets), sample
        family.add_metric(sample.labels, buckets=_cumulative(value), sum_value=value.sum)
    else:
        assert isinstance(family, GaugeMetricFamily | CounterMetricFamily), family
        assert not isinstance(value, Buckets), sample
        family.add_metric(sample.labels, value)


def _cumulative(buckets: Buckets) -> list[tuple[str, float]]:
    """Pairs of (upper bound, cumulative count), as the format requires."""
    ends = (*(str(float(bound)) for bound in buckets.bounds), "+Inf")
    return list(zip(ends, accumulate(map(float, buckets.counts)), strict=True))
