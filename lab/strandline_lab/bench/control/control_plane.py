"""Measures what changes of the cluster cost each process: processor time, requests to ZooKeeper, its log.

`python -m strandline_lab.bench.control.control_plane [--runs N] [-o json] [--keep FILE]` prints tables, or
JSON, which `--keep` writes into a file as well. A step is counted until the cluster rests, less what rest
costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from strandline import Admin, LocalCluster
from strandline.adapters.system.clock import SystemClock
from strandline.ids import NO_BROKER
from strandline_lab.bench.cluster.leadership import PREFIX
from strandline_lab.bench.control.counts import Usage, mean
from strandline_lab.bench.control.looks import ZOOKEEPER, look
from strandline_lab.bench.control.steps import ALL, MOVED, PARTITIONS, STEPS, TOPICS, Stage, Step
from strandline_lab.bench.report import heading, machine, number, table
from strandline_lab.bench.scale.processes import BROKERS, at_rest

REST_S: Final = 30.0
SETTINGS: Final = {"reconcile_ms": 20_000, "preferred_leader_check_ms": 3_600_000}
"""A broker compares itself with all of ZooKeeper every 24 rounds of `reconcile_ms`: not in a run. Leaders
go back to the preferred replica only when a step asks for it."""
TIMEOUT_MS: Final = 120_000


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step cost, without rest.

    `answer_s`: until its caller saw the change; `changed_s`: until the last state change of a partition;
    `changes`: records of state changes.
    """

    partitions: int
    answer_s: float
    changed_s: float
    changes: int
    usage: Usage

    def as_json(self) -> dict[str, Any]:
        return {
            "partitions": self.partitions,
            "answer_s": self.answer_s,
            "changed_s": self.changed_s,
            "changes": self.changes,
            **self.usage.as_json(),
        }


Run = Mapping[str, Cost]


async def one_run() -> Run:
    """The cost of each step, on a cluster of its own."""
    async with (
        LocalCluster(BROKERS, broker_settings=SETTINGS) as cluster,
        Admin(cluster.bootstrap, request_timeout_ms=TIMEOUT_MS) as admin,
    ):
        stage = Stage(cluster, admin)
        empty = await _rest(cluster)
        raw: dict[str, Cost] = {}
        full = empty
        for name, step in STEPS.items():
            print(name, file=sys.stderr, flush=True)
            raw[name] = await _counted(stage, step)
            if name == "create":
                full = await _rest(cluster)
            if name != "delete":
                await _check(stage, without=stage.victim if name in ("kill", "leave") else None)
    grows = mean([empty, full])
    return {
        name: Cost(
            cost.partitions,
            cost.answer_s,
            cost.changed_s,
            cost.changes,
            cost.usage.without(grows if name in ("create", "delete") else full),
        )
        for name, cost in raw.items()
    }


async def _quiet(cluster: LocalCluster) -> None:
    """Returns once the processes that run have nothing left to do."""
    await at_rest([member.pid for member in cluster.members() if member.pid is not None])


async def _rest(cluster: LocalCluster) -> Usage:
    """What the cluster uses with nothing to do."""
    await _quiet(cluster)
    before = await look(cluster, cpu_first=False)
    await asyncio.sleep(REST_S)
    return (await look(cluster, cpu_first=True)).since(before)


async def _counted(stage: Stage, step: Step) -> Cost:
    """Carries a step out, and counts until the cluster rests."""
    clock, cluster = SystemClock(), stage.cluster
    if step.prepare is not None:
        await step.prepare(stage)
    await _quiet(cluster)
    stage.ended_ms.clear()
    before = await look(cluster, cpu_first=False)
    began_ms, began = clock.wall_ms(), clock.monotonic()
    await step.act(stage)
    answer_s = clock.monotonic() - began
    await asyncio.sleep(step.settle_s)
    await _quiet(cluster)
    usage = (await look(cluster, cpu_first=True)).since(before, stage.ended_ms)
    changed_ms = [
        event.at_ms
        async for event in stage.admin.state_changes(since_ms=began_ms)
        if event.topic == MOVED or event.topic.startswith(PREFIX)
    ]
    changed_s = (max(changed_ms, default=began_ms) - began_ms) / 1_000
    return Cost(step.partitions(stage), answer_s, changed_s, len(changed_ms), usage)


async def _check(stage: Stage, without: int | None) -> None:
    """Every partition has a leader, and all its replicas in sync but those of one broker. Raises
    RuntimeError: the step was counted too early, or failed."""
    for topic in (await stage.admin.metadata()).topics:
        if topic.name.startswith(PREFIX):
            for each in topic.partitions:
                wanted = set(each.replicas) - {without}
                if each.leader == NO_BROKER or set(each.isr) != wanted:
                    raise RuntimeError(f"{topic.name} {each} was not at rest")


# --- tables ---------------------------------------------------------------------------------------

TOTALS: Final = (
    "",
    "partitions",
    "answered, s",
    "last change, s",
    "CPU of brokers, ms",
    "of the controller, ms",
    "of ZooKeeper, ms",
    "requests of brokers",
    "of the controller",
    "operations of both",
    "transactions",
    "log, bytes",
    "records",
)
BY_PROCESS: Final = ("", "process", "CPU, ms", "requests", "operations", "by kind")


def totals(runs: Sequence[Run]) -> list[list[str]]:
    """A row for each step: medians of the runs, for each partition where they are costs."""
    rows = []
    for name, step in STEPS.items():
        costs = [run[name] for run in runs]
        figures = [
            [
                cost.usage.total("broker").cpu_ms,
                cost.usage.total("controller").cpu_ms,
                cost.usage.total("zookeeper").cpu_ms,
                cost.usage.total("broker").requests_total,
                cost.usage.total("controller").requests_total,
                cost.usage.total().operations_total,
                cost.usage.transactions,
                cost.usage.log_bytes,
                cost.changes,
            ]
            for cost in costs
        ]
        each = [
            median(run[column] / cost.partitions for run, cost in zip(figures, costs, strict=True))
            for column in range(len(figures[0]))
        ]
        rows.append(
            [
                step.title,
                number(costs[0].partitions),
                number(median(cost.answer_s for cost in costs)),
                number(median(cost.changed_s for cost in costs)),
                *map(_shown, each),
            ]
        )
    return rows


def by_process(run: Run) -> list[list[str]]:
    """A row for each step and process, of one run, for each partition. The requests of ZooKeeper are those
    that it received, also from a process that ended."""
    rows = []
    for name, cost in run.items():
        for process, whole in cost.usage.processes.items():
            counts = whole * (1 / cost.partitions)
            received = cost.usage.received / cost.partitions
            is_zookeeper = process.split()[0] == ZOOKEEPER
            rows.append(
                [
                    STEPS[name].title,
                    process,
                    _shown(counts.cpu_ms),
                    _shown(received if is_zookeeper else counts.requests_total),
                    "" if is_zookeeper else _shown(counts.operations_total),
                    kinds(counts.requests),
                ]
            )
    return rows


def kinds(requests: Mapping[str, float]) -> str:
    """The kinds of requests, the most frequent first, without those that round to none."""
    shown = sorted(requests.items(), key=lambda each: -each[1])
    return ", ".join(f"{kind} {_shown(count)}" for kind, count in shown if _shown(count) != "0")


def _shown(value: float) -> str:
    """As `number`; what rest may account for is 0."""
    return "0" if value < 0.005 else number(value)


def show(runs: Sequence[Run]) -> None:
    """Prints both tables."""
    heading(f"The control plane: {TOPICS} topics × {PARTITIONS} × 3 on {BROKERS} brokers", "control_plane")
    print(f"Costs are for each partition that changes; {TOPICS} topics × {PARTITIONS}, {ALL} partitions.\n")
    table(TOTALS, totals(runs))
    print("\nBy process, in the first run:\n")
    table(BY_PROCESS, by_process(runs[0]))


async def runs_of(count: int) -> list[Run]:
    answers = []
    for run in range(count):
        print(f"run {run + 1} of {count}", file=sys.stderr, flush=True)
        answers.append(await one_run())
    return answers


async def measure(runs: int = 1) -> None:
    """Prints the tables."""
    show(await runs_of(runs))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("-o", "--output", choices=("markdown", "json"), default="markdown")
    parser.add_argument("--keep", type=Path, help="a file that the JSON is written to")
    given = parser.parse_args()
    runs = asyncio.run(runs_of(given.runs))
    found = [{name: cost.as_json() for name, cost in run.items()} for run in runs]
    written = json.dumps({"machine": machine(), "runs": found})
    if given.keep is not None:
        given.keep.write_text(written + "\n")
    if given.output == "json":
        print(written)
    else:
        show(runs)


if __name__ == "__main__":
    main()
