"""Measures how long a local cluster takes to start and to stop. The goal is 3 s for three brokers, a
controller and ZooKeeper (docs/run/performance.md)."""

from __future__ import annotations

import time
from collections.abc import Mapping

from strandline.local.cluster import LocalCluster
from strandline_lab.bench.report import RUNS, heading, medians

FIGURES = {
    "start": "start, s",
    "restart": "kill and restart a broker, s",
    "stop": "stop, s",
}


async def one_run() -> Mapping[str, float]:
    """Seconds, by what was done."""
    cluster = LocalCluster(brokers=3)
    began = time.perf_counter()
    await cluster.start()
    served = time.perf_counter()
    try:
        await cluster.kill_broker(1)
        await cluster.start_broker(1)
        restarted = time.perf_counter()
    finally:
        await cluster.stop(clean=False)
    stopped = time.perf_counter()
    return {"start": served - began, "restart": restarted - served, "stop": stopped - restarted}


async def measure(runs: int = RUNS) -> None:
    """Print the table."""
    heading("A local cluster of three brokers", "local_cluster")
    await medians(runs, one_run, FIGURES)
