"""Members of one group that only send its RPCs: the first generation, one more member, heartbeats, memory."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from strandline import Admin, LocalCluster, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline_lab.bench.report import cpu_s, resident_mib
from strandline_lab.bench.scale.processes import BROKERS, Processes, running
from strandline_lab.bench.scale.series import Dimension, Figure
from strandline_lab.perf.worker_processes import WorkerProcesses

WORKERS: Final = 8
GROUP: Final = "many"
TOPIC: Final = "a-topic"
HELD_MS: Final = 1_000
BEATS_S: Final = 20.0
WARM_S: Final = 5.0
SETTLED_S_MAX: Final = 180.0
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


class Joining(WorkerProcesses):
    """Processes of `bench.groups.group_members`; the last of them has one member, which joins later."""

    def __init__(self, cluster: LocalCluster, members: int) -> None:
        starts = [*(members * number // WORKERS for number in range(WORKERS + 1)), members + 1]
        super().__init__(
            "strandline_lab.bench.groups.group_members",
            [
                (cluster.bootstrap, GROUP, str(first), str(end - first))
                for first, end in itertools.pairwise(starts)
            ],
        )
        self._clock = SystemClock()
        self._members = members
        self._in_generation: defaultdict[int, list[float]] = defaultdict(list)
        """For each generation, when each of its members had its assignment."""
        self._news = asyncio.Event()

    async def listen(self, worker: int) -> None:
        """Reads the lines of a worker until it ends."""
        async for line in self.lines(worker):
            if "generation" in line:
                self._in_generation[line["generation"]].append(line["at"])
                self._news.set()

    async def first(self) -> float:
        """All but one join. Returns the seconds until they are in one generation. Raises TimeoutError."""
        return await self._settled(self._members, range(WORKERS))

    async def one_more(self) -> float:
        """The last one joins. Returns the seconds until all are in one generation. Raises TimeoutError."""
        return await self._settled(self._members + 1, [WORKERS])

    async def _settled(self, members: int, workers: Sequence[int]) -> float:
        began = self._clock.monotonic()
        self.send("join 0", *workers)
        async with asyncio.timeout(SETTLED_S_MAX):
            while True:
                for answered in self._in_generation.values():
                    if len(answered) == members and max(answered) > began:
                        return max(answered) - began
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def _joining(cluster: LocalCluster, members: int) -> AsyncIterator[Joining]:
    async with asyncio.TaskGroup() as tasks, Joining(cluster, members) as workers:
        for worker in range(len(workers)):
            tasks.create_task(workers.listen(worker))
        yield workers


async def measure(size: int) -> Mapping[str, float]:
    """The figures of one cluster with one group of `size` members."""
    async with running(group_members_max=MEMBERS_MAX) as cluster:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topic(TOPIC, 1, BROKERS)
            await admin.alter_group_offsets(GROUP, {TopicPartition(TOPIC, 0): 0})  # creates the group
            coordinator = cluster.pid((await admin.describe_group(GROUP)).coordinator.id)
        await Processes(cluster).quiet()
        async with _joining(cluster, size) as workers:
            empty_mib, before = resident_mib(coordinator), cpu_s(coordinator)
            join_s = await workers.first()
            join_cpu_s = cpu_s(coordinator) - before
            workers.send(f"beat {HELD_MS}")
            await asyncio.sleep(WARM_S)
            full_mib, before = resident_mib(coordinator), cpu_s(coordinator)
            await asyncio.sleep(BEATS_S)
            beats_cpu_s = cpu_s(coordinator) - before
            before = cpu_s(coordinator)
            again_s = await workers.one_more()
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
