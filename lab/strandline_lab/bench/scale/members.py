"""Members of one group that only send its RPCs: the first generation, one more member, heartbeats, memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from strandline import Admin, TopicPartition
from strandline_lab.bench.groups.raw_members import raw_members, shared
from strandline_lab.bench.report import cpu_s, resident_mib
from strandline_lab.bench.scale.processes import BROKERS, Processes, running
from strandline_lab.bench.scale.series import Dimension, Figure

WORKERS: Final = 8
GROUP: Final = "many"
TOPIC: Final = "a-topic"
HELD_MS: Final = 1_000
BEATS_S: Final = 20.0
WARM_S: Final = 5.0
MEMBERS_MAX: Final = 5_000

FIGURES: Final = {
    "join_s": Figure("first join → all in one generation, s", total=True),
    "join_cpu_s": Figure("CPU of the coordinator for the first generation, s", total=True),
    "again_s": Figure("one more joins → all in the next generation, s", total=True),
    "again_cpu_s": Figure("CPU of the coordinator for the next generation, s", total=True),
    "member_kib": Figure("memory of the coordinator a member, KiB"),
    "beats_cpu_percent": Figure(
        "CPU of the coordinator for heartbeats held for 1 s, % of a core", total=True
    ),
}


async def measure(size: int) -> Mapping[str, float]:
    """The figures of one cluster with one group of `size` members."""
    async with running(group_members_max=MEMBERS_MAX) as cluster:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topic(TOPIC, 1, BROKERS)
            await admin.alter_group_offsets(GROUP, {TopicPartition(TOPIC, 0): 0})  # creates the group
            coordinator = cluster.pid((await admin.describe_group(GROUP)).coordinator.id)
        await Processes(cluster).quiet()
        shares = [*shared(size, WORKERS), 1]  # the last one joins later
        async with raw_members(cluster, GROUP, shares) as workers:
            empty_mib, before = resident_mib(coordinator), cpu_s(coordinator)
            join_s = await workers.join(size, *range(WORKERS))
            join_cpu_s = cpu_s(coordinator) - before
            workers.send(f"beat {HELD_MS}")
            await asyncio.sleep(WARM_S)
            full_mib, before = resident_mib(coordinator), cpu_s(coordinator)
            await asyncio.sleep(BEATS_S)
            beats_cpu_s = cpu_s(coordinator) - before
            before = cpu_s(coordinator)
            again_s = await workers.join(size + 1, WORKERS)
            again_cpu_s = cpu_s(coordinator) - before
        return {
            "join_s": join_s,
            "join_cpu_s": join_cpu_s,
            "again_s": again_s,
            "again_cpu_s": again_cpu_s,
            "member_kib": 1024 * (full_mib - empty_mib) / size,
            "beats_cpu_percent": 100 * beats_cpu_s / BEATS_S,
        }


DIMENSION: Final = Dimension(
    "members",
    f"Members of one group on {BROKERS} brokers",
    (10, 100, 300, 1_000, 2_000),
    FIGURES,
    measure,
)
