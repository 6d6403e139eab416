"""What a batch costs each process on its way from a producer to its acknowledgement, and a follower that
catches up: processor time, wake-ups and system calls."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from strandline import Admin, LocalCluster, Producer
from strandline.cli.load.completeness import isr_whole
from strandline_lab.bench.log import budget_client
from strandline_lab.bench.log.catch_up import fill, grown_to, log_bytes
from strandline_lab.bench.log.process_costs import Costs, SystemCalls, costs_of
from strandline_lab.bench.report import RUNS, heading, table

COUNTS: Final = {"large": 3_000, "one": 3_000, "small": 20_000, "send": 400_000}
TITLES: Final = {
    "large": "64 KiB, opaque, 10 in flight: a batch",
    "one": "one record of 100 B in flight: a record",
    "small": "1 KiB, 32 in flight: a batch",
    "send": "100 B by `send`: 1,000 records",
}
UNIT: Final = {"send": 1_000}
"""Records of one row of the table; 1 elsewhere."""
TRACED_PART: Final = 4
"""A traced round has a fourth of the work: strace makes it several times slower."""
CALLS_SHOWN_MAX: Final = 5
REPLICAS: Final = 3
CATCH_UP: Final = "budget-catch-up"
CATCH_UP_CALLS: Final = 60


@dataclass(frozen=True, slots=True)
class Round:
    """What a round cost each process, and how long it took."""

    costs: Mapping[str, Costs]
    seconds: float


async def measure(runs: int = RUNS) -> None:
    """Prints the tables."""
    async with LocalCluster(brokers=REPLICAS) as cluster, Admin(cluster.bootstrap) as admin:
        for work, title in TITLES.items():
            heading(f"Budget: {title}", "budget")
            await _produce(cluster, admin, work, runs)
        heading("Budget: a follower catches up: 1 MB", "budget")
        await _catch_up(cluster, admin, runs)


# --- producing ----------------------------------------------------------------------------------


async def _produce(cluster: LocalCluster, admin: Admin, work: str, runs: int) -> None:
    topic = f"budget-{work}"
    await admin.create_topic(topic, partitions=1, replication_factor=REPLICAS)
    brokers = await _brokers(cluster, admin, topic)
    client = (cluster.bootstrap, topic, work)
    await _show_rounds(client, brokers, COUNTS[work], UNIT.get(work, 1), runs)
    await admin.delete_topics([topic])


async def _brokers(cluster: LocalCluster, admin: Admin, topic: str) -> dict[str, int]:
    """The pids of the leader of the topic's partition, and of its followers."""
    leader = (await isr_whole(admin, topic))[0]
    followers = [broker for broker in cluster.broker_ids if broker != leader]
    names = {"leader": leader, **{f"follower {number}": each for number, each in enumerate(followers, 1)}}
    return {name: cluster.pid(broker) for name, broker in names.items()}


async def _show_rounds(
    client: Sequence[str], brokers: Mapping[str, int], count: int, unit: int, runs: int
) -> None:
    """Prints the costs of `count` elements, `unit` of them in a row, that a client sends; the last argument
    of the client is the count."""
    async with _started(*client, str(count)) as process:
        pids = {"client": process.pid, **brokers}
        rounds = [await _round(process, pids) for _ in range(runs)]
    calls: Mapping[str, Mapping[str, int]] = {}
    if SystemCalls.available():
        async with _started(*client, str(count // TRACED_PART)) as process:
            tracing = SystemCalls({"client": process.pid, **brokers})
            await tracing.begin()
            await _work(process)
            calls = await tracing.end()
    _show(rounds, count / unit, calls, count // TRACED_PART / unit)


@asynccontextmanager
async def _started(*arguments: str) -> AsyncIterator[Process]:
    """A client that has printed its first line: it is warm. It is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", budget_client.__name__, *arguments, stdin=PIPE, stdout=PIPE
    )
    try:
        await _printed(process)
        yield process
    finally:
        process.kill()
        await process.wait()


async def _printed(process: Process) -> None:
    """Reads a line. Raises RuntimeError if the process ends instead."""
    assert process.stdout is not None
    if not await process.stdout.readline():
        raise RuntimeError(f"a client of the measurement ended with {await process.wait()}")


async def _work(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    await _printed(process)


async def _round(process: Process, pids: Mapping[str, int]) -> Round:
    before, began = {each: costs_of(pid) for each, pid in pids.items()}, time.monotonic()
    await _work(process)
    seconds = time.monotonic() - began
    return Round({each: costs_of(pid) - before[each] for each, pid in pids.items()}, seconds)


# --- catching up --------------------------------------------------------------------------------


async def _catch_up(cluster: LocalCluster, admin: Admin, runs: int) -> None:
    """A follower is stopped while the log grows, and started: from its first new byte to its last."""
    await admin.create_topic(CATCH_UP, partitions=1, replication_factor=REPLICAS)
    rounds = []
    missed = 1
    async with Producer(cluster.bootstrap) as producer:
        for _ in range(runs):
            leader = (await isr_whole(admin, CATCH_UP))[0]
            away = next(broker for broker in cluster.broker_ids if broker != leader)
            await cluster.stop_broker(away)
            before = log_bytes(cluster.data_dir(away), CATCH_UP)
            await fill(producer, CATCH_UP, CATCH_UP_CALLS)
            missed = log_bytes(cluster.data_dir(leader), CATCH_UP) - before
            async with asyncio.TaskGroup() as tasks:
                growing = tasks.create_task(_growth(cluster, leader, away, before, missed))
                await cluster.start_broker(away)
            rounds.append(growing.result())
    _show(rounds, missed / 1e6, {}, 1)


async def _growth(cluster: LocalCluster, leader: int, away: int, before: int, missed: int) -> Round:
    folder = cluster.data_dir(away)
    await grown_to(folder, CATCH_UP, before + 1)
    first, began = log_bytes(folder, CATCH_UP), time.monotonic()
    pids = {"leader": cluster.pid(leader), "follower": cluster.pid(away)}
    costs = {name: costs_of(pid) for name, pid in pids.items()}
    await grown_to(folder, CATCH_UP, before + missed)
    took = time.monotonic() - began
    part = missed / (before + missed - first)
    whole = {name: (costs_of(pid) - costs[name]) * part for name, pid in pids.items()}
    return Round(whole, took * part)


# --- the tables ---------------------------------------------------------------------------------


def _show(
    rounds: Sequence[Round], units: float, calls: Mapping[str, Mapping[str, int]], traced_units: float
) -> None:
    """Prints a row for each process and for all together: medians of the rounds, for one unit."""
    for number, each in enumerate(rounds, 1):
        print(f"round {number}: {each.seconds / units * 1e6:.0f} µs a unit", file=sys.stderr, flush=True)
    rows = []
    for name in rounds[0].costs:
        cpu = statistics.median([each.costs[name].cpu_us for each in rounds]) / units
        waits = statistics.median([each.costs[name].wake_ups for each in rounds]) / units
        rows.append([name, f"{cpu:.0f}", f"{waits:.2f}", *_calls(calls.get(name, {}), traced_units)])
    total = statistics.median([sum(cost.cpu_us for cost in each.costs.values()) for each in rounds]) / units
    table(
        ["", "CPU, µs", "wake-ups", "system calls", "the most frequent"],
        [*rows, ["all", f"{total:.0f}", "", "", ""]],
    )


def _calls(calls: Mapping[str, int], units: float) -> tuple[str, str]:
    if not calls:
        return "", ""
    most = sorted(calls, key=lambda name: -calls[name])[:CALLS_SHOWN_MAX]
    shown = ", ".join(f"{name} {calls[name] / units:.1f}" for name in most)
    return f"{sum(calls.values()) / units:.1f}", shown
