"""Measures the simulation: virtual seconds per CPU second under a steady load, seeds an hour, memory.

The goals are 20 virtual seconds per CPU second at 200 records/s, and 1,000 seeds of 60 virtual seconds an
hour and core (docs/run/performance.md).
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Sequence
from typing import Final

from strandline_lab.bench.report import RUNS, heading, median_of, table
from strandline_lab.bench.runs import output_of

LOADS: Final = {0: 600, 20: 60, 200: 10, 1_000: 2}
"""Records per second, and the virtual seconds for which that is measured."""
SEEDS: Final = 5
SEED_S: Final = 60
"""Virtual seconds of faults in a seed."""
S_PER_HOUR: Final = 3_600


async def _output(arguments: Sequence[str]) -> str:
    """Run a module of this Python. Raises RuntimeError with its errors if it failed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    return (await output_of(process, " ".join(arguments))).decode()


async def _loads(runs: int) -> None:
    rows = []
    for rate, seconds in LOADS.items():
        print(f"{rate} records/s", file=sys.stderr, flush=True)
        answers: list[dict[str, float]] = [
            json.loads(
                await _output(["strandline_lab.bench.simulation.steady_load", str(rate), str(seconds)])
            )
            for _ in range(runs)
        ]
        figures = ("virtual_s", "start_ms", "cluster_mib", "process_mib")
        rows.append([str(rate), *(median_of([each[name] for each in answers]) for name in figures)])
    heads = ["virtual s per CPU s", "start of a cluster, CPU ms", "a cluster, MiB", "the process, MiB"]
    table(["records/s", *heads], rows)


async def _seeds(runs: int) -> None:
    hourly = []
    for run in range(runs):
        print(f"seeds, run {run + 1} of {runs}", file=sys.stderr, flush=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seeds = ["--seed", str(1 + run * SEEDS), "--seeds", str(SEEDS), "--seconds", str(SEED_S)]
        await _output(["strandline", "simulate", *seeds, "--jobs", "1"])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        hourly.append(SEEDS * S_PER_HOUR / cpu_s)
    table(["", "median (min–max)"], [[f"seeds of {SEED_S} virtual s per CPU hour", median_of(hourly)]])


async def measure(runs: int = RUNS) -> None:
    """Print the tables."""
    heading("The simulation", "simulation")
    await _loads(runs)
    print()
    await _seeds(runs)
