"""Measures the control plane and transactions through librdkafka, of a local cluster and of other systems in
turns.

`python -m strandline_lab.bench.kafka.versus [--runs N] [--keep FILE]
[--of create,sizes,kill,group,assigned,transactions] [--peer NAME BOOTSTRAP BROKER=PID,… RESTART]` prints a
table with a column for each system. RESTART is a shell command with `{broker}` in it, which starts that
broker again and prints its pid.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from strandline import LocalCluster
from strandline_lab.bench.kafka.assigned_groups import HEADS as ASSIGNED_HEADS
from strandline_lab.bench.kafka.assigned_groups import assigned
from strandline_lab.bench.kafka.peers import Given, Own, Peer
from strandline_lab.bench.kafka.processes import CONTROL_CLIENT, next_line, run_client, start_client
from strandline_lab.bench.kafka.transactions import HEADS as TRANSACTION_HEADS
from strandline_lab.bench.kafka.transactions import transactions
from strandline_lab.bench.report import cpu_s, heading, machine, median_of, table
from strandline_lab.bench.scale.processes import BROKERS, at_rest

TOPICS: Final = 300
PARTITIONS: Final = 3
AT_ONCE: Final = 100
SIZES: Final = (10, 50, 200, 500)
OTHERS: Final = (5, 600)
"""Other topics beside the one whose leader is killed."""
KILLS: Final = 3
FED_S: Final = 2.0
"""How long records are acknowledged before a kill."""
AFTER_S: Final = 8.0
"""How long they are acknowledged after it, at least: the gap that follows is in this time, and ends."""
MADE_S: Final = 15.0
"""A topic is deleted this long after its partitions are led: some systems make their logs only then."""
REST_S: Final = 10.0
SPARE_CPU_S: Final = 0.3
"""What a system at rest may use more in a window than it did before."""
WARM_ROUNDS: Final = 2
WARM_RECORDS: Final = 200_000
MEMBERS: Final = 50
MEMBER_PROCESSES: Final = 5
GROUP_PARTITIONS: Final = 3_000
SETTLED_S: Final = 10.0
SETTLE_S_MAX: Final = 300.0

Figures = dict[str, float]


# --- one system ---------------------------------------------------------------------------------


async def warm(peer: Peer) -> Figures:
    """Topics and records that are not measured: a virtual machine compiles what is used often."""
    for _ in range(WARM_ROUNDS):
        await _control(peer, "create", "warm", topics=AT_ONCE, partitions=PARTITIONS, at_once=AT_ONCE)
        await _control(peer, "fill", "warm-0", records=WARM_RECORDS)
        await _control(peer, "delete", "warm", topics=AT_ONCE, at_once=AT_ONCE)
    return {}


async def create(peer: Peer) -> Figures:
    """Many small topics: created and deleted, and the processor time of all processes for both."""
    sizes = {"topics": TOPICS, "at_once": AT_ONCE}
    created, created_cpu_s = await _with_cpu(
        peer, lambda: _control(peer, "create", "many", partitions=PARTITIONS, **sizes)
    )
    deleted, deleted_cpu_s = await _with_cpu(peer, lambda: _control(peer, "delete", "many", **sizes))
    return {
        "created_per_s": TOPICS / created["led_s"],
        "created_cpu_ms": 1_000 * created_cpu_s / TOPICS,
        "deleted_per_s": TOPICS / deleted["gone_s"],
        "deleted_cpu_ms": 1_000 * deleted_cpu_s / TOPICS,
    }


async def sizes(peer: Peer) -> Figures:
    """One topic of many partitions, created and deleted."""
    figures: Figures = {}
    for size in SIZES:
        created = await _control(peer, "create", f"size{size}", topics=1, partitions=size)
        await asyncio.sleep(MADE_S)
        deleted = await _control(peer, "delete", f"size{size}", topics=1)
        figures[f"led_{size}_s"] = created["led_s"]
        figures[f"gone_{size}_s"] = deleted["gone_s"]
    return figures


async def kill(peer: Peer) -> Figures:
    """The longest gap between acknowledgements of a partition whose leader is killed: the median of some
    kills, and the greatest."""
    figures: Figures = {}
    there = 0
    await _control(peer, "create", "fed", topics=1, partitions=1)
    for others in OTHERS:
        await _control(
            peer, "create", "other", topics=others - there, first=there, partitions=3, at_once=AT_ONCE
        )
        there = others
        gaps = sorted([await _gap_s(peer, "fed-0") for _ in range(KILLS)])
        print(f"{peer.name}, {others} others: {gaps}", file=sys.stderr, flush=True)
        figures[f"gap_{others}_s"] = gaps[len(gaps) // 2]
        figures[f"gap_{others}_s_max"] = gaps[-1]
    await _control(peer, "delete", "other", topics=there, at_once=AT_ONCE)
    await _control(peer, "delete", "fed", topics=1)
    return figures


async def group(peer: Peer) -> Figures:
    """A group whose members join one topic at the same time, and then one more."""
    topic = "group-0"
    await _control(peer, "create", "group", topics=1, partitions=GROUP_PARTITIONS)
    each = MEMBERS // MEMBER_PROCESSES
    processes: list[Process] = []
    held: dict[int, int] = {}

    async def started(first: int, count: int) -> None:
        options = (f"first={first}", f"members={count}")
        processes.append(
            await start_client(peer.bootstrap, "members", topic, *options, module=CONTROL_CLIENT)
        )

    async def settled(members: int) -> float:
        began = time.monotonic()
        async with asyncio.timeout(SETTLE_S_MAX):
            return await _settled(processes, held, members) - began

    try:
        for number in range(MEMBER_PROCESSES):
            await started(number * each, each)
        settle_s = await settled(MEMBERS)
        await started(MEMBERS, 1)
        joined_s = await settled(MEMBERS + 1)
    finally:
        async with asyncio.TaskGroup() as tasks:
            for process in processes:
                tasks.create_task(process.communicate(b""))
    await _control(peer, "delete", "group", topics=1)
    return {"group_settle_s": settle_s, "group_join_s": joined_s}


async def _settled(processes: Sequence[Process], held: dict[int, int], members: int) -> float:
    """When the last change was after which all partitions are shared by all members, and nothing more changed
    for a while."""
    changed_at = 0.0
    lines: asyncio.Queue[str] = asyncio.Queue()

    async def listen(process: Process) -> None:
        while True:
            lines.put_nowait(" ".join(await next_line(process)))

    async with asyncio.TaskGroup() as tasks:
        listening = [tasks.create_task(listen(process)) for process in processes]
        while True:
            shared = len(held) == members and all(held.values()) and sum(held.values()) == GROUP_PARTITIONS
            try:
                async with asyncio.timeout(SETTLED_S if shared else None):
                    line = json.loads(await lines.get())
            except TimeoutError:
                break
            held[line["member"]] = line["held"]
            changed_at = line["at"]
        for task in listening:
            task.cancel()
    return changed_at


async def _gap_s(peer: Peer, topic: str) -> float:
    leader = int((await _control(peer, "leader", topic))["leader"])
    feeding = await start_client(peer.bootstrap, "feed", topic)
    acknowledged: list[float] = []
    try:
        _, began = map(float, await next_line(feeding))
        while not acknowledged or acknowledged[-1] < began + FED_S:
            acknowledged.append(float((await next_line(feeding))[1]))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(peer.kill(leader))
            while acknowledged[-1] < began + FED_S + AFTER_S:
                acknowledged.append(float((await next_line(feeding))[1]))
    finally:
        _out, err = await feeding.communicate(b"")
    if feeding.returncode:
        raise RuntimeError(f"the producer failed: {err.decode().strip()}")
    await peer.start(leader)
    await _control(peer, "whole", topic, brokers=peer.brokers)
    return longest_gap_s(acknowledged)


def longest_gap_s(times: Sequence[float]) -> float:
    """The longest time between two neighbours of `times`, which are two at least."""
    return max(later - earlier for earlier, later in pairwise(times))


async def _with_cpu(
    peer: Peer, work: Callable[[], Awaitable[Mapping[str, Any]]]
) -> tuple[Mapping[str, Any], float]:
    """What the work returns, and the processor time of the system for it until it rests, less what rest
    costs."""
    pids = peer.pids()
    used, began = _used_s(pids), time.monotonic()
    await asyncio.sleep(REST_S)
    rest = (_used_s(pids) - used) / (time.monotonic() - began)
    used, began = _used_s(pids), time.monotonic()
    figures = await work()
    await at_rest(pids, 3 * rest + SPARE_CPU_S)
    return figures, _used_s(pids) - used - rest * (time.monotonic() - began)


def _used_s(pids: Sequence[int]) -> float:
    return sum(map(cpu_s, pids))


async def _control(peer: Peer, work: str, name: str, **options: int) -> Mapping[str, Any]:
    given = [f"{option}={value}" for option, value in options.items()]
    return await run_client(peer.bootstrap, work, name, *given, module=CONTROL_CLIENT)


# --- all systems ----------------------------------------------------------------------------------

WORK: Final[Mapping[str, Callable[[Peer], Awaitable[Figures]]]] = {
    "create": create,
    "sizes": sizes,
    "kill": kill,
    "group": group,
    "assigned": assigned,
    "transactions": transactions,
}
HEADS: Final = {
    "created_per_s": f"{TOPICS} topics × {PARTITIONS}, {AT_ONCE} a request: topics/s until all are led",
    "created_cpu_ms": "CPU of all processes for a topic, ms",
    "deleted_per_s": "their deletion: topics/s until none is listed",
    "deleted_cpu_ms": "CPU of all processes for a topic's deletion, ms",
    **{f"led_{size}_s": f"a topic of {size} partitions until all are led, s" for size in SIZES},
    **{f"gone_{size}_s": f"deletion of a topic of {size} partitions until not listed, s" for size in SIZES},
    **{
        f"gap_{others}_s{end}": f"kill -9 of a leader, {others} other topics: longest gap{of}, s"
        for others in OTHERS
        for end, of in (("", f", median of {KILLS}"), ("_max", ", greatest"))
    },
    "group_settle_s": f"{MEMBERS} members on {GROUP_PARTITIONS:,} partitions, cooperative: until settled, s",
    "group_join_s": "one more member: until settled, s",
    **ASSIGNED_HEADS,
    **TRANSACTION_HEADS,
}

Found = dict[str, dict[str, list[float]]]
"""By system and figure: a value of each run."""


async def compare(peers: Sequence[Peer], names: Sequence[str], runs: int) -> Found:
    """Measures all systems in turns."""
    found: Found = {peer.name: {} for peer in peers}
    for peer in peers:
        print(f"warm {peer.name}", file=sys.stderr, flush=True)
        await warm(peer)
    for run in range(runs):
        for name in names:
            for peer in peers:
                print(f"run {run + 1} of {runs}: {name}, {peer.name}", file=sys.stderr, flush=True)
                for figure, value in (await WORK[name](peer)).items():
                    found[peer.name].setdefault(figure, []).append(value)
                    print(f"{figure} {value:.4g}", file=sys.stderr, flush=True)
    return found


def show(found: Found) -> None:
    """Prints a row for each figure, a column for each system."""
    heading("The control plane and transactions through librdkafka", "control_plane_versus")
    rows = [
        [head, *(median_of(figures[name]) for figures in found.values())]
        for name, head in HEADS.items()
        if all(name in figures for figures in found.values())
    ]
    table(["", *found], rows)


async def _measured(others: Sequence[Peer], names: Sequence[str], runs: int) -> Found:
    async with LocalCluster(BROKERS, kafka=True) as cluster:
        return await compare([Own(cluster), *others], names, runs)


async def measure(runs: int = 1) -> None:
    """Prints the table of the local cluster alone."""
    show(await _measured((), list(WORK), runs))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--of", default=",".join(WORK), help="what to measure, separated by commas")
    parser.add_argument("--keep", type=Path, help="a file that the values are written to as JSON")
    parser.add_argument(
        "--peer", nargs=4, action="append", default=[], metavar=("NAME", "BOOTSTRAP", "PIDS", "RESTART")
    )
    given = parser.parse_args()
    others = [Given(*each) for each in given.peer]
    found = asyncio.run(_measured(others, given.of.split(","), given.runs))
    if given.keep is not None:
        given.keep.write_text(json.dumps({"machine": machine(), "found": found}) + "\n")
    show(found)


if __name__ == "__main__":
    main()
