"""Reads the metrics of a controller in this process."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.adapters.rpc.refused_requests import RefusedRequests
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.telemetry.audit import Audit
from strandline.adapters.telemetry.metrics import Buckets, Sample
from strandline.controller.metrics import ControllerMetrics
from tests.controller.support.running import Running

CLOCK = SystemClock()


class Read:
    """One reading of a controller in this process."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._values = {(sample.metric.name, *sample.labels): sample.value for sample in samples}

    def __call__(self, name: str, *labels: str) -> float | None:
        value = self._values.get((name, *labels))
        assert not isinstance(value, Buckets)
        return value


def read(controller: Running) -> Read:
    return Read(
        ControllerMetrics(
            controller.activity, RequestTimes(CLOCK), RefusedRequests(CLOCK), Audit("", CLOCK), CLOCK
        ).read()
    )
