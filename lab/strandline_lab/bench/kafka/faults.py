"""Measures a leader that many consumers wait at, and the time without acknowledgements after its kill."""

from __future__ import annotations

import asyncio
import time
from asyncio.subprocess import Process
from typing import Final

from strandline import Admin, LocalCluster
from strandline.cli.load.completeness import isr_whole
from strandline_lab.bench.kafka.processes import new_topic, next_line, run_client, start_client
from strandline_lab.bench.report import cpu_s

IDLE_CONSUMERS: Final = 1_000
IDLE_PROCESSES: Final = 4
IDLE_SETTINGS: Final = {"kafka_client_connections_max": 5 * IDLE_CONSUMERS}
"""All consumers have one address, and each has several connections."""
IDLE_S: Final = 8.0
SETTLE_S: Final = 2.0
ACKNOWLEDGED_BEFORE: Final = 200
"""Acknowledgements before a kill."""


async def idle_cpu(cluster: LocalCluster) -> float:
    """The share of a core, in percent, that a leader uses for consumers that wait at the end."""
    async with Admin(cluster.bootstrap) as admin, new_topic(admin, "idle", partitions=1) as topic:
        leader = (await isr_whole(admin, topic))[0]
        await run_client(
            cluster.kafka_bootstrap,
            *("produce_small", topic, "partitions=1", "records=1", "size=100", "in_flight=1"),
        )
        options = ("idle", topic, f"consumers={IDLE_CONSUMERS // IDLE_PROCESSES}")
        processes = [await start_client(cluster.kafka_bootstrap, *options) for _ in range(IDLE_PROCESSES)]
        try:
            for process in processes:
                await next_line(process)
            await asyncio.sleep(SETTLE_S)
            pid = cluster.pid(leader)
            used, began = cpu_s(pid), time.monotonic()
            await asyncio.sleep(IDLE_S)
            return (cpu_s(pid) - used) / (time.monotonic() - began) * 100
        finally:
            for process in processes:
                await process.communicate(b"")


async def failover(kills: int) -> list[float]:
    """The milliseconds from each kill of the leader to the acknowledgement of a record sent after it, for an
    idempotent librdkafka producer with a record every millisecond.

    Each kill has a producer of its own: librdkafka waits up to 10 s before it connects again to a broker that
    it once found dead, and the next leader is one that an earlier kill has hit. Raises RuntimeError if a
    record fails.
    """
    times = []
    async with LocalCluster(brokers=3, kafka=True) as cluster, Admin(cluster.bootstrap) as admin:
        await admin.create_topic(
            "failover", partitions=1, replication_factor=3, config={"min.insync.replicas": "2"}
        )
        for _ in range(kills):
            leader = (await isr_whole(admin, "failover"))[0]
            times.append(await _one_failover(cluster, leader))
            await cluster.start_broker(leader)
    return times


async def _one_failover(cluster: LocalCluster, leader: int) -> float:
    feeding = await start_client(cluster.kafka_bootstrap, "feed", "failover")
    try:
        for _ in range(ACKNOWLEDGED_BEFORE):
            await next_line(feeding)
        killed_at = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            acked = tasks.create_task(_acknowledged(feeding, killed_at))
            tasks.create_task(cluster.kill_broker(leader))
    finally:
        _out, err = await feeding.communicate(b"")
    if feeding.returncode:
        raise RuntimeError(f"the producer failed: {err.decode().strip()}")
    return (acked.result() - killed_at) * 1_000


async def _acknowledged(process: Process, killed_at: float) -> float:
    """When the first record that was sent after `killed_at` was acknowledged."""
    while True:
        sent_at, acknowledged_at = map(float, await next_line(process))
        if sent_at > killed_at:
            return acknowledged_at
