"""Measures the clusters for users' tests: how long they take to start, and what they weigh.

Cold is the first cluster of a new process, without the import of strandline; warm is the median of the next
ones. The goal is 0.1 s for three brokers and a controller (docs/run/performance.md).
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping

from strandline_lab.bench.report import RUNS, heading, medians, resident_mib

WARM_CLUSTERS = 10
AT_THE_SAME_TIME = 50
RECORDS = 100

FIGURES = {
    "import": "import of strandline.testing's clusters and the clients, s",
    "memory_cold": "MemoryCluster, cold: serves after, ms",
    "memory_warm": "MemoryCluster, warm: serves after, ms",
    "topic": "creation of a topic of RF 3, ms",
    "one_by_one": "one record, acks=all, acknowledged after, ms",
    "group": "a group's first record after its consumer's start, ms",
    "simulated_cold": "SimulatedCluster, after a MemoryCluster: serves after, ms",
    "simulated_warm": "SimulatedCluster, warm: serves after, ms",
    "resident": "the process with one cluster, MiB",
    "each": "each further cluster at the same time, MiB",
}


async def one_run() -> Mapping[str, float]:
    """The figures of one new process."""
    command = [sys.executable, "-m", "strandline_lab.bench.cluster.in_memory"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    figures: Mapping[str, float] = json.loads(out)
    return figures


async def measure(runs: int = RUNS) -> None:
    """Print the table."""
    heading("Clusters in memory, of three brokers and a controller", "in_memory")
    await medians(runs, one_run, FIGURES)


# --- within the new process -------------------------------------------------------------------


async def _memory(figures: dict[str, float]) -> None:
    from strandline.testing.memory import MemoryCluster

    starts = []
    for _ in range(1 + WARM_CLUSTERS):
        began = time.perf_counter()
        async with MemoryCluster() as cluster:
            starts.append((time.perf_counter() - began) * 1000)
            if len(starts) > 1:
                continue
            figures["resident"] = resident_mib(os.getpid())
            began = time.perf_counter()
            await cluster.create_topic("topic")
            figures["topic"] = (time.perf_counter() - began) * 1000
            async with cluster.producer() as producer:
                await producer.send_and_wait("topic", b"first")
                began = time.perf_counter()
                for _ in range(RECORDS):
                    await producer.send_and_wait("topic", b"record")
                figures["one_by_one"] = (time.perf_counter() - began) * 1000 / RECORDS
            began = time.perf_counter()
            async with cluster.consumer(group_id="group", offset_reset="earliest") as consumer:
                consumer.subscribe(["topic"])
                _ = await consumer.getone()
                figures["group"] = (time.perf_counter() - began) * 1000
    figures["memory_cold"], *warm = starts
    figures["memory_warm"] = statistics.median(warm)


async def _at_the_same_time(figures: dict[str, float]) -> None:
    from contextlib import AsyncExitStack

    from strandline.testing.memory import MemoryCluster

    async with AsyncExitStack() as opened:
        await opened.enter_async_context(MemoryCluster())
        before = resident_mib(os.getpid())
        for _ in range(AT_THE_SAME_TIME):
            await opened.enter_async_context(MemoryCluster())
        figures["each"] = (resident_mib(os.getpid()) - before) / AT_THE_SAME_TIME


def _simulated(figures: dict[str, float]) -> None:
    from strandline.testing.simulated import SimulatedCluster

    starts = []
    for seed in range(1 + WARM_CLUSTERS):
        began = time.perf_counter()
        with SimulatedCluster(seed=seed) as cluster:
            cluster.run(asyncio.sleep(0))
            starts.append((time.perf_counter() - began) * 1000)
    figures["simulated_cold"], *warm = starts
    figures["simulated_warm"] = statistics.median(warm)


def _in_this_process() -> dict[str, float]:
    figures: dict[str, float] = {}
    began = time.perf_counter()
    import strandline.testing.memory
    import strandline.testing.simulated  # noqa: F401  # this import is measured

    figures["import"] = time.perf_counter() - began
    asyncio.run(_memory(figures))
    _simulated(figures)
    asyncio.run(_at_the_same_time(figures))
    return figures


if __name__ == "__main__":
    print(json.dumps(_in_this_process()))
