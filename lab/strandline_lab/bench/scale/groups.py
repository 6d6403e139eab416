"""Groups of one member: their first commits and joins, memory, heartbeats, and the loss of a coordinator."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from strandline import Admin, LocalCluster
from strandline_lab.bench.report import cpu_s
from strandline_lab.bench.scale.group_clients import HELD_MS, TOPIC
from strandline_lab.bench.scale.processes import BROKERS, Processes, running
from strandline_lab.bench.scale.series import Dimension, Figure
from strandline_lab.perf.worker_processes import WorkerProcesses

WORKERS: Final = 2
ACTIVE_S: Final = 30.0
LOST_S: Final = 2 * HELD_MS / 1_000
"""By then every member knows that its coordinator is gone, or has been answered."""
ANSWER_S_MAX: Final = 300.0

FIGURES: Final = {
    "commit_cpu_s": Figure("first commit of each group: CPU of all brokers, s", total=True),
    "empty_group_kib": Figure("memory a group without members, KiB"),
    "join_cpu_s": Figure("first member of each group, to its assignment: CPU of all brokers, s", total=True),
    "group_kib": Figure("memory a group with a member and its held heartbeat, KiB"),
    "active_cpu_percent": Figure("heartbeats held for 3 s: CPU of all brokers, % of a core", total=True),
    "away_s": Figure(
        "kill of the broker with the most groups → the last one has a coordinator, s", total=True
    ),
    "away_cpu_s": Figure("CPU of the others after that kill, s", total=True),
}


async def measure(size: int) -> Mapping[str, float]:
    """The figures of one cluster with `size` groups."""
    async with running() as cluster, Admin(cluster.bootstrap) as admin:
        await admin.create_topic(TOPIC, 1, BROKERS)
        await admin.group_offsets("group-0")  # creates the topic of the groups
        processes = Processes(cluster)
        await processes.quiet()
        starts = [size * number // WORKERS for number in range(WORKERS + 1)]
        arguments = [
            (cluster.bootstrap, str(first), str(end - first)) for first, end in itertools.pairwise(starts)
        ]
        async with WorkerProcesses("strandline_lab.bench.scale.group_clients", arguments) as workers:
            asked = Asked(workers)
            empty_mib, before = processes.brokers_mib(), processes.used()
            await asked.do("commit")
            commit_cpu_s = processes.since(before)["broker"]
            await processes.quiet()
            committed_mib, before = processes.brokers_mib(), processes.used()
            await asked.do("join")
            join_cpu_s = processes.since(before)["broker"]
            await asyncio.sleep(ACTIVE_S / 2)  # what the joins have left to do is done
            joined_mib, before = processes.brokers_mib(), processes.used()
            await asyncio.sleep(ACTIVE_S)
            active = processes.since(before)["broker"]
            return {
                "commit_cpu_s": commit_cpu_s,
                "empty_group_kib": 1024 * (committed_mib - empty_mib) / size,
                "join_cpu_s": join_cpu_s,
                "group_kib": 1024 * (joined_mib - empty_mib) / size,
                "active_cpu_percent": 100 * active / ACTIVE_S,
                **await _lost(cluster, admin, asked),
            }


class Asked:
    """Sends a command to all workers, and waits for their lines."""

    def __init__(self, workers: WorkerProcesses) -> None:
        self._workers = workers
        self._lines = [workers.lines(number) for number in range(len(workers))]

    async def do(self, command: str) -> Sequence[Mapping[str, Any]]:
        """The line of each worker. Raises TimeoutError."""
        self._workers.send(command)
        async with asyncio.timeout(ANSWER_S_MAX):
            return [await anext(lines) for lines in self._lines]


async def _lost(cluster: LocalCluster, admin: Admin, asked: Asked) -> dict[str, float]:
    """Kills the broker that coordinates the most partitions of groups."""
    (topic,) = (await admin.metadata(["__consumer_offsets"])).topics
    victim = Counter(partition.leader for partition in topic.partitions).most_common(1)[0][0]
    others = [cluster.pid(broker) for broker in cluster.broker_ids if broker != victim]
    before = sum(map(cpu_s, others))
    await cluster.kill_broker(victim)
    await asyncio.sleep(LOST_S)
    away = [seconds for line in await asked.do("moved") for seconds in line["away_s"]]
    return {"away_s": max(away, default=0.0), "away_cpu_s": sum(map(cpu_s, others)) - before}


DIMENSION: Final = Dimension(
    "groups",
    f"Groups of one member each on {BROKERS} brokers",
    (10, 100, 1_000, 3_000, 5_000),
    FIGURES,
    measure,
)
