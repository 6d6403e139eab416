"""Measures the cost of groups: a large group's first assignment, a thousand members on one coordinator,
commits.

`python -m strandline_lab.bench.groups.groups [--runs N] [--members 1000] [--settle 3000x50]` has other sizes.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Final

from strandline import Admin, LocalCluster, TopicPartition
from strandline_lab.bench.groups.raw_members import raw_members, shared
from strandline_lab.bench.report import RUNS, cpu_s, heading, medians
from strandline_lab.perf.measure import spread
from strandline_lab.perf.member_processes import MemberProcesses

MEMBERS: Final = 1_000
SETTLE: Final = (3_000, 50)
COMMITTED: Final = "commits"
"""A topic with a partition for each committer."""
COMMITTERS: Final = 64
PROCESSES: Final = 4
HELD_MS: Final = 1_000

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


async def _coordinator(cluster: LocalCluster, group: str) -> int:
    """The id of the process that coordinates a group."""
    async with Admin(cluster.bootstrap) as admin:
        await admin.alter_group_offsets(group, {TopicPartition(COMMITTED, 0): 0})  # creates the group
        return cluster.pid((await admin.describe_group(group)).coordinator.id)


async def settling(cluster: LocalCluster, partitions: int, members: int, protocol: str) -> float:
    """Seconds from the first member's start until all members share all partitions."""
    topic = f"settle-{partitions}"
    settings = {"group_id": f"settle-{protocol}", "rebalance_protocol": protocol}
    async with MemberProcesses(
        cluster.bootstrap, topic, partitions, settings, processes=PROCESSES
    ) as processes:
        span = await processes.add(members)
        return span.until - span.since


async def many_members(cluster: LocalCluster, members: int) -> dict[str, float]:
    """The cost of starting this number of members, and of keeping them."""
    group = "many"
    pid = await _coordinator(cluster, group)
    async with raw_members(cluster, group, shared(members, PROCESSES)) as workers:
        before = cpu_s(pid)
        join_s = await workers.join(members)
        join_cpu_s = cpu_s(pid) - before
        began, ended, share = await workers.used("beat 0", pid)
        _, _, held = await workers.used(f"beat {HELD_MS}", pid)
    beats = workers.times("beats", began, ended)
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
    """Measures offset commits of members that wait only for the answer."""
    group = "committing"
    pid = await _coordinator(cluster, group)
    async with raw_members(cluster, group, shared(COMMITTERS, 2)) as workers:
        await workers.join(COMMITTERS)
        began, ended, share = await workers.used(f"commit {COMMITTED}", pid)
    taken = workers.times("commits", began, ended)
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
    """Prints the table."""
    heading("Groups on 3 brokers", "groups")
    words = {
        "members": f"{members:,}",
        "settle": f"{settle[0]:,} partitions × {settle[1]} members",
        "committers": str(COMMITTERS),
    }
    figures = {name: head.format(**words) for name, head in FIGURES.items()}
    await medians(runs, lambda: one_run(members, settle), figures)


def main() -> None:
    """Reads sizes and runs from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--settle", default="x".join(map(str, SETTLE)), metavar="PARTITIONSxMEMBERS")
    given = parser.parse_args()
    partitions, _, members = given.settle.partition("x")
    asyncio.run(measure(given.runs, given.members, (int(partitions), int(members))))


if __name__ == "__main__":
    main()
