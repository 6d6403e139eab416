"""What do groups cost? A large group's first assignment; a thousand members on one coordinator; commits.

`python -m bench.groups.groups [--runs N] [--members 1000] [--settle 3000x50]` for sizes of one's own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.report import RUNS, cpu_s, heading, medians
from strandline import Admin, LocalCluster, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.cli.perf.measure import spread
from strandline.cli.perf.member_processes import Crew

MEMBERS: Final = 1_000
SETTLE: Final = (3_000, 50)
COMMITTED: Final = "commits"
"""A topic with a partition for each committer."""
COMMITTERS: Final = 64
PROCESSES: Final = 4
WINDOW_S: Final = 10.0
WARM_S: Final = 2.0
JOIN_S_MAX: Final = 120.0
HELD_MS: Final = 1_000
LINE_BYTES_MAX: Final = 64 << 20

FIGURES: Final = {
    "settle_eager_s": "{settle}: all shared, eager, s",
    "settle_cooperative_s": "{settle}: all shared, cooperative, s",
    "join_s": "{members} members: from the first join to all in one generation, s",
    "join_cpu_s": "{members} members: the coordinator's CPU for that, s",
    "beats_per_s": "heartbeats a second, each answered at once",
    "beat_p50_ms": "heartbeat p50, ms",
    "beat_p99_ms": "heartbeat p99, ms",
    "beat_cpu_percent": "the coordinator's CPU for them, % of a core",
    "held_cpu_percent": "the same, answers held for a second, % of a core",
    "commits_per_s": "commits of one offset a second, {committers} members at a time",
    "commit_p50_ms": "commit p50, ms",
    "commit_p99_ms": "commit p99, ms",
    "commit_cpu_percent": "the coordinator's CPU for them, % of a core",
}


class RawMembers:
    """Processes of `bench.groups.group_members`, and what they say."""

    def __init__(self, cluster: LocalCluster, group: str, members: int, processes: int) -> None:
        self._cluster = cluster
        self._group = group
        self._shares = [members // processes + (n < members % processes) for n in range(processes)]
        self._members = members
        self._processes: list[Process] = []
        self._clock = SystemClock()

    async def start(self) -> None:
        """Start the processes; nobody joins before `join`."""
        first = 0
        for share in self._shares:
            self._processes.append(
                await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "bench.groups.group_members"),
                    *(self._cluster.bootstrap, self._group, str(first), str(share)),
                    stdin=PIPE,
                    stdout=PIPE,
                    limit=LINE_BYTES_MAX,
                )
            )
            first += share
        for process in self._processes:
            await self._line(process)

    async def join(self) -> float:
        """Have all join; seconds until all are in the same generation."""
        began = self._clock.monotonic()
        self.say("join 0")
        async with asyncio.timeout(JOIN_S_MAX), asyncio.TaskGroup() as tasks:
            reports: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
            listeners = [tasks.create_task(self._listen(process, reports)) for process in self._processes]
            counts: dict[int, int] = {}
            while True:
                report = await reports.get()
                counts[report["generation"]] = counts.get(report["generation"], 0) + 1
                if counts[report["generation"]] == self._members:
                    break
            for listener in listeners:
                listener.cancel()
        return float(report["at"]) - began

    async def _listen(self, process: Process, reports: asyncio.Queue[Mapping[str, Any]]) -> None:
        while True:
            reports.put_nowait(json.loads(await self._line(process)))

    async def _line(self, process: Process) -> bytes:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process of members ended with {await process.wait()}")
        return line

    def say(self, command: str) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{command}\n".encode())

    async def used(self, command: str, pid: int) -> tuple[float, float, float]:
        """Have them do something; after a while, when a window of it began and ended, and the share of a core
        that the process `pid` used in it."""
        self.say(command)
        await self._clock.sleep(WARM_S)
        began, before = self._clock.monotonic(), cpu_s(pid)
        await self._clock.sleep(WINDOW_S)
        ended = self._clock.monotonic()
        return began, ended, (cpu_s(pid) - before) / (ended - began)

    async def end(self) -> dict[str, list[tuple[float, float]]]:
        """How long everything took, by what was done: (when it was answered, seconds)."""
        found: dict[str, list[tuple[float, float]]] = {"beats": [], "commits": []}
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            last = b""
            assert process.stdout is not None
            while line := await process.stdout.readline():
                last = line
            for kind, samples in json.loads(last).items():
                found[kind] += [(at, took) for at, took in samples]
            await process.wait()
        return found


def _within(samples: Sequence[tuple[float, float]], began: float, ended: float) -> list[float]:
    return [took for at, took in samples if began <= at <= ended]


async def _coordinator(cluster: LocalCluster, group: str) -> int:
    """The process that coordinates a group, by its id."""
    async with Admin(cluster.bootstrap) as admin:
        await admin.alter_group_offsets(group, {TopicPartition(COMMITTED, 0): 0})  # now it exists
        return cluster.pid((await admin.describe_group(group)).coordinator.id)


async def settling(cluster: LocalCluster, partitions: int, members: int, protocol: str) -> float:
    """Seconds from the first member's start until all partitions are shared by all."""
    topic = f"settle-{partitions}"
    settings = {"group_id": f"settle-{protocol}", "rebalance_protocol": protocol}
    async with Crew(cluster.bootstrap, topic, partitions, settings, processes=PROCESSES) as crew:
        span = await crew.add(members)
        return span.until - span.since


async def many_members(cluster: LocalCluster, members: int) -> dict[str, float]:
    """What it costs a coordinator to gather so many, and to keep them."""
    group = "many"
    pid = await _coordinator(cluster, group)
    crowd = RawMembers(cluster, group, members, PROCESSES)
    await crowd.start()
    before = cpu_s(pid)
    join_s = await crowd.join()
    join_cpu_s = cpu_s(pid) - before
    began, ended, share = await crowd.used("beat 0", pid)
    _, _, held = await crowd.used(f"beat {HELD_MS}", pid)
    beats = _within((await crowd.end())["beats"], began, ended)
    times = spread(beats)
    return {
        "join_s": join_s,
        "join_cpu_s": join_cpu_s,
        "beats_per_s": len(beats) / (ended - began),
        "beat_p50_ms": times["p50_ms"],
        "beat_p99_ms": times["p99_ms"],
        "beat_cpu_percent": 100 * share,
        "held_cpu_percent": 100 * held,
    }


async def commits(cluster: LocalCluster) -> dict[str, float]:
    """Offset commits of members that wait for nothing but the answer."""
    group = "committing"
    pid = await _coordinator(cluster, group)
    crowd = RawMembers(cluster, group, COMMITTERS, 2)
    await crowd.start()
    await crowd.join()
    began, ended, share = await crowd.used(f"commit {COMMITTED}", pid)
    taken = _within((await crowd.end())["commits"], began, ended)
    times = spread(taken)
    return {
        "commits_per_s": len(taken) / (ended - began),
        "commit_p50_ms": times["p50_ms"],
        "commit_p99_ms": times["p99_ms"],
        "commit_cpu_percent": 100 * share,
    }


async def one_run(members: int, settle: tuple[int, int]) -> dict[str, float]:
    """The figures of one cluster."""
    async with LocalCluster(brokers=3) as cluster:
        async with Admin(cluster.bootstrap, request_timeout_ms=120_000) as admin:
            await admin.create_topic(COMMITTED, COMMITTERS, 3)
            await admin.create_topic(f"settle-{settle[0]}", settle[0], 3)
        return {
            **{f"settle_{p}_s": await settling(cluster, *settle, p) for p in ("eager", "cooperative")},
            **await many_members(cluster, members),
            **await commits(cluster),
        }


async def measure(runs: int = RUNS, members: int = MEMBERS, settle: tuple[int, int] = SETTLE) -> None:
    """Print the table."""
    heading("Groups on 3 brokers", "groups")
    words = {
        "members": f"{members:,}",
        "settle": f"{settle[0]:,} partitions × {settle[1]} members",
        "committers": str(COMMITTERS),
    }
    figures = {name: head.format(**words) for name, head in FIGURES.items()}
    await medians(runs, lambda: one_run(members, settle), figures)


def main() -> None:
    """Sizes and runs from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--settle", default="x".join(map(str, SETTLE)), metavar="PARTITIONSxMEMBERS")
    given = parser.parse_args()
    partitions, _, members = given.settle.partition("x")
    asyncio.run(measure(given.runs, given.members, (int(partitions), int(members))))


if __name__ == "__main__":
    main()
