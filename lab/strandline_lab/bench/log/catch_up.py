"""Measures how fast a follower that was away catches up. The leader has no other clients meanwhile.

`python -m strandline_lab.bench.log.catch_up CALLS` prints one run as JSON, with a log of CALLS times 10 MB.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from strandline import Admin, LocalCluster, Producer
from strandline.adapters.system.clock import SystemClock
from strandline.cli.load.completeness import isr_whole
from strandline_lab.bench.report import RUNS, heading, medians

TOPIC: Final = "catch-up"
CALLS: Final = 100
VALUES: Final = [bytes(100)] * 100_000
CALLS_IN_FLIGHT: Final = 4
LOOK_EVERY_S: Final = 0.01

FIGURES: Final = {
    "mb_per_s": "from the first byte to the last, MB/s",
    "missed_mb": "missed, MB",
    "whole_s": "from the start of its process to a full ISR, s",
}


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading("A follower catches up, 100 B records in large batches", "catch_up")
    await medians(runs, one_run, FIGURES)


async def one_run(calls: int = CALLS) -> Mapping[str, float]:
    """Measures one follower of two, stopped while the log grows, by about a gigabyte by default."""
    monotonic = SystemClock().monotonic
    async with (
        LocalCluster(brokers=3) as cluster,
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap) as producer,
    ):
        await admin.create_topic(TOPIC, partitions=1, replication_factor=3)
        leader = (await isr_whole(admin, TOPIC))[0]
        away = next(broker for broker in cluster.broker_ids if broker != leader)
        await cluster.stop_broker(away)
        await fill(producer, TOPIC, calls)
        folder = cluster.data_dir(away)
        before = log_bytes(folder, TOPIC)
        missed = log_bytes(cluster.data_dir(leader), TOPIC) - before
        began = monotonic()
        async with asyncio.TaskGroup() as tasks:
            growing = tasks.create_task(_growth_s(folder, before, missed))
            await cluster.start_broker(away)
        await isr_whole(admin, TOPIC)
        whole_s = monotonic() - began
    return {
        "mb_per_s": missed / growing.result() / 1e6,
        "missed_mb": missed / 1e6,
        "whole_s": whole_s,
    }


async def fill(producer: Producer, topic: str, calls: int) -> None:
    """Appends 10 MB of records to partition 0 for each call."""
    slots = asyncio.Semaphore(CALLS_IN_FLIGHT)
    for _ in range(calls):
        await slots.acquire()
        bulk = await producer.send_many(topic, VALUES, partition=0)
        bulk.add_done_callback(lambda _: slots.release())
    await producer.flush()


async def _growth_s(folder: Path, before: int, missed: int) -> float:
    """Seconds from the first new byte to the last."""
    monotonic = SystemClock().monotonic
    await grown_to(folder, TOPIC, before + 1)
    first = monotonic()
    await grown_to(folder, TOPIC, before + missed)
    return monotonic() - first


async def grown_to(folder: Path, topic: str, size: int) -> None:
    """Waits until a broker's folder has this many bytes of the topic's log."""
    clock = SystemClock()
    while log_bytes(folder, topic) < size:
        await clock.sleep(LOOK_EVERY_S)


def log_bytes(folder: Path, topic: str) -> int:
    """The size of the topic's log in a broker's folder."""
    return sum(path.stat().st_size for path in folder.glob(f"{topic}-*/*.log"))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(one_run(int(sys.argv[1])))))
