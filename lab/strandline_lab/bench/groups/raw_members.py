"""Processes of `bench.groups.group_members`: members of one group that only send its RPCs."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from strandline import LocalCluster
from strandline.adapters.system.clock import SystemClock
from strandline_lab.bench.groups import group_members
from strandline_lab.bench.report import cpu_s
from strandline_lab.perf.worker_processes import WorkerProcesses

SETTLED_S_MAX: Final = 180.0
WINDOW_S: Final = 10.0
WARM_S: Final = 2.0


class RawMembers(WorkerProcesses):
    """`shares` are the numbers of members of the processes."""

    def __init__(self, cluster: LocalCluster, group: str, shares: Sequence[int]) -> None:
        firsts = itertools.accumulate(shares, initial=0)
        super().__init__(
            group_members.__name__,
            [
                (cluster.bootstrap, group, str(first), str(share))
                for first, share in zip(firsts, shares, strict=False)
            ],
        )
        self._clock = SystemClock()
        self._in_generation: defaultdict[int, list[float]] = defaultdict(list)
        """For each generation, when each of its members had its assignment."""
        self._news = asyncio.Event()
        self._times: list[Mapping[str, Sequence[tuple[float, float]]]] = []
        """The last line of each process that has ended."""

    async def listen(self, worker: int) -> None:
        """Reads the lines of a process until it ends. Raises RuntimeError if the last one is missing."""
        line: Mapping[str, Any] = {}
        async for line in self.lines(worker):
            if "generation" in line:
                self._in_generation[line["generation"]].append(line["at"])
                self._news.set()
        if "beats" not in line:
            raise RuntimeError(f"processes of members ended with {self.exit_codes}")
        self._times.append(line)

    async def join(self, members: int, *workers: int) -> float:
        """Has all members of these processes join; of all of them by default. Returns the seconds until
        `members` are in one generation. Raises TimeoutError."""
        began = self._clock.monotonic()
        self.send("join 0", *workers)
        async with asyncio.timeout(SETTLED_S_MAX):
            while True:
                for answered in self._in_generation.values():
                    if len(answered) == members and max(answered) > began:
                        return max(answered) - began
                self._news.clear()
                await self._news.wait()

    async def used(self, command: str, pid: int) -> tuple[float, float, float]:
        """Sends a command. Returns the begin and end of a later window, and the share of a core that the
        process `pid` used in it."""
        self.send(command)
        await self._clock.sleep(WARM_S)
        began, before = self._clock.monotonic(), cpu_s(pid)
        await self._clock.sleep(WINDOW_S)
        ended = self._clock.monotonic()
        return began, ended, (cpu_s(pid) - before) / (ended - began)

    def times(self, kind: str, began: float, ended: float) -> list[float]:
        """The duration of each of the `beats` or `commits` answered in this window; available after the
        processes ended."""
        return [took for line in self._times for at, took in line[kind] if began <= at <= ended]


@asynccontextmanager
async def raw_members(cluster: LocalCluster, group: str, shares: Sequence[int]) -> AsyncIterator[RawMembers]:
    """Starts processes that are ready to join. When the block ends, they end, and their times are known."""
    async with asyncio.TaskGroup() as tasks, RawMembers(cluster, group, shares) as workers:
        for worker in range(len(workers)):
            tasks.create_task(workers.listen(worker))
        yield workers


def shared(members: int, processes: int) -> list[int]:
    """About as many members for each process."""
    ends = [members * number // processes for number in range(processes + 1)]
    return [end - first for first, end in itertools.pairwise(ends)]
