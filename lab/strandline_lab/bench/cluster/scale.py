"""Measures the cost of many partitions: 3 brokers, 1,000 topics of 3 partitions with 3 replicas each, all
idle."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from strandline import Admin, LocalCluster, NewTopic
from strandline.adapters.system.clock import SystemClock
from strandline.local.ports import free_ports
from strandline.local.zookeeper_process import ZooKeeperProcess
from strandline_lab.bench.cluster.leadership import PREFIX, QUIET_S, leaders, moved_after_s
from strandline_lab.bench.report import RUNS, cpu_s, heading, medians, resident_mib

TOPICS: Final = 1_000
PARTITIONS: Final = 3
IDLE_S: Final = 10.0
ZOOKEEPER_START_S_MAX: Final = 30.0

FIGURES: Final = {
    "created_s": "created, each with a leader, s",
    "watches": "ZooKeeper watches (mntr)",
    "memory_mib": "memory of the largest broker, MiB",
    "idle_cpu_percent": "idle CPU a broker, % of a core",
    "moved": "leaderships of the killed broker, the one with the most",
    "elsewhere_s": "until all of them are led elsewhere after the kill, s",
}


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading(f"{TOPICS:,} topics × {PARTITIONS} partitions × 3 replicas on 3 brokers", "scale")
    await medians(runs, one_run, FIGURES)


async def one_run() -> Mapping[str, float]:
    """The figures of one cluster."""
    clock = SystemClock()
    async with (
        counting_zookeeper() as zookeeper,
        LocalCluster(brokers=3, zookeeper=zookeeper) as cluster,
        Admin(cluster.bootstrap, request_timeout_ms=120_000) as admin,
    ):
        began = clock.monotonic()
        await admin.create_topics([NewTopic(f"{PREFIX}{number}", PARTITIONS, 3) for number in range(TOPICS)])
        created_s = clock.monotonic() - began
        await asyncio.sleep(QUIET_S)  # until all of it is recorded
        pids = [cluster.pid(broker) for broker in cluster.broker_ids]
        before = [cpu_s(pid) for pid in pids]
        await asyncio.sleep(IDLE_S)
        idle = [cpu_s(pid) - used for pid, used in zip(pids, before, strict=True)]
        watched = await watches(zookeeper)
        memory = max(map(resident_mib, pids))
        victim, led = (await leaders(admin)).most_common(1)[0]
        killed_at_ms = clock.wall_ms()
        await cluster.kill_broker(victim)
        return {
            "created_s": created_s,
            "watches": watched,
            "memory_mib": memory,
            "idle_cpu_percent": 100 * statistics.mean(idle) / IDLE_S,
            "moved": led,
            "elsewhere_s": await moved_after_s(admin, victim, killed_at_ms),
        }


@asynccontextmanager
async def counting_zookeeper() -> AsyncIterator[str]:
    """The address of a ZooKeeper that tells how many watches there are, which others keep to themselves."""
    with TemporaryDirectory() as folder:
        server = ZooKeeperProcess(
            Path(folder) / "zookeeper",
            free_ports(1)[0],
            log_path=Path(folder) / "zookeeper.log",
            more="4lw.commands.whitelist=srvr,mntr\n",
        )
        server.start()
        try:
            await server.wait_serving(ZOOKEEPER_START_S_MAX)
            yield server.address
        finally:
            await server.discard()


async def watches(zookeeper: str) -> int:
    """The number of watches that ZooKeeper counts, of all its clients."""
    host, _, port = zookeeper.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"mntr")
    answer = (await reader.read()).decode()
    writer.close()
    return next(int(line.split()[1]) for line in answer.splitlines() if line.startswith("zk_watch_count"))
