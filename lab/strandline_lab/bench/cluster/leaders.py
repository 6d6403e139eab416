"""Measures the loss of a broker that leads 1,000 partitions: at a shutdown, after kill -9, and after kill -9
in a design with a watch for each partition (`watch_design.py`), in the same run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from strandline import Admin, LocalCluster, NewTopic, Producer
from strandline.adapters.system.clock import SystemClock
from strandline.cli.load.feed import Feeder
from strandline.errors import RequestTimedOut
from strandline_lab.bench.cluster.leadership import POLL_S, PREFIX, SETTLE_S_MAX, leaders, moved_after_s
from strandline_lab.bench.cluster.scale import counting_zookeeper, watches
from strandline_lab.bench.cluster.watch_design import model
from strandline_lab.bench.report import RUNS, heading, medians

TOPICS: Final = 1_000
PARTITIONS: Final = 3
BROKERS: Final = 3
FED: Final = f"{PREFIX}0"
CLOCK: Final = SystemClock()

FIGURES: Final = {
    "led": "partitions led by the broker that goes",
    "stopped_elsewhere_s": "on purpose (SIGTERM): all led elsewhere after, s",
    "stopped_s": "on purpose: the process has ended after, s",
    "gap_ms": "on purpose: longest gap between two acknowledgements of one producer, ms",
    "failed": "on purpose: records failed",
    "killed_elsewhere_s": "kill -9: all led elsewhere after, s",
    "watches": "watches, all brokers (mntr)",
    "model_elsewhere_s": "a watch for each partition, kill -9: all led elsewhere after, s",
    "model_watches": "a watch for each partition: watches",
}


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading(f"A broker of {BROKERS} that leads {TOPICS * PARTITIONS // BROKERS:,} partitions goes", "leaders")
    await medians(runs, one_run, FIGURES)


async def one_run() -> Mapping[str, float]:
    """The figures of one cluster, and of one model."""
    async with (
        counting_zookeeper() as ground,
        model(ground, partitions=TOPICS * PARTITIONS, brokers=BROKERS) as first_design,
    ):
        model_watches = await watches(ground)
        model_elsewhere_s = await first_design.kill_first()
    async with (
        counting_zookeeper() as zookeeper,
        LocalCluster(brokers=BROKERS, zookeeper=zookeeper) as cluster,
        Admin(cluster.bootstrap, request_timeout_ms=120_000) as admin,
        Producer(cluster.bootstrap) as producer,
    ):
        await admin.create_topics([NewTopic(f"{PREFIX}{number}", PARTITIONS, 3) for number in range(TOPICS)])
        figures: dict[str, float] = {"watches": await watches(zookeeper)}
        victim = await _even(admin)
        figures["led"] = (await leaders(admin))[victim]
        figures |= await _stop(cluster, admin, producer, victim)
        await cluster.start_broker(victim)
        await _whole(admin)
        await _even(admin)
        began_ms = CLOCK.wall_ms()
        await cluster.kill_broker(victim)
        figures["killed_elsewhere_s"] = await moved_after_s(admin, victim, began_ms)
    return figures | {"model_watches": model_watches, "model_elsewhere_s": model_elsewhere_s}


async def _stop(cluster: LocalCluster, admin: Admin, producer: Producer, victim: int) -> Mapping[str, float]:
    """Shuts it down while a producer writes to a partition that it leads."""
    (topic,) = (await admin.metadata([FED])).topics
    fed = next(partition.partition for partition in topic.partitions if partition.leader == victim)
    feed = Feeder(producer, FED)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(feed.run(stop, partitions=[fed]))
        await feed.gap.begun.wait()
        began, began_ms = CLOCK.monotonic(), CLOCK.wall_ms()
        await cluster.stop_broker(victim)
        stopped = CLOCK.monotonic()
        elsewhere_s = await moved_after_s(admin, victim, began_ms)
        stop.set()
    await producer.flush()
    return {
        "stopped_elsewhere_s": elsewhere_s,
        "stopped_s": stopped - began,
        "gap_ms": feed.gap.longest_s * 1000,
        "failed": feed.failed,
    }


async def _even(admin: Admin) -> int:
    """Lets preferred replicas lead all partitions. Returns a broker; all lead the same number."""
    async with asyncio.timeout(SETTLE_S_MAX):
        while True:
            led = await leaders(admin)
            if sorted(led.values()) == [TOPICS * PARTITIONS // BROKERS] * BROKERS:
                return min(led)
            with suppress(RequestTimedOut):  # not all of them in time: the next round requests the others
                await admin.elect_preferred()
            await asyncio.sleep(POLL_S)


async def _whole(admin: Admin) -> None:
    """Waits until each replica is in sync again."""
    async with asyncio.timeout(SETTLE_S_MAX):
        while True:
            cluster = await admin.metadata()
            if all(len(p.isr) == len(p.replicas) for topic in cluster.topics for p in topic.partitions):
                return
            await asyncio.sleep(POLL_S)
