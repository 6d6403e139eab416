"""`python -m strandline_lab.bench [--runs N] [name…]`: prints tables of measurements."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module

from strandline_lab.bench.perf_tables import TABLES
from strandline_lab.bench.report import RUNS

MODULES = {
    "handover": "cluster.handover",
    "security": "cluster.encryption",
    "catch_up": "log.catch_up",
    "budget": "log.budget",
    "scale": "cluster.scale",
    "scale_curves": "scale.curves",
    "local_cluster": "cluster.local_cluster",
    "groups": "groups.groups",
    "control_plane": "control.control_plane",
    "control_plane_versus": "kafka.versus",
    "kafka": "kafka.compare",
}
"""The measurements that are a module each, in the order in which they run."""


def measurements() -> dict[str, Callable[..., Awaitable[None]]]:
    """All measurements by name, each with an optional number of runs."""
    modules = {name: import_module(f"strandline_lab.bench.{module}") for name, module in MODULES.items()}
    return {
        **{table.name: table.measure for table in TABLES},
        **{name: module.measure for name, module in modules.items()},
    }


def main() -> None:
    """Runs the measurements one after another."""
    known = measurements()
    parser = argparse.ArgumentParser(
        prog="python -m strandline_lab.bench", description="Print tables of measurements."
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(known)}; default: all")
    parser.add_argument(
        "--runs", type=int, help=f"runs of each measurement; default: {RUNS}, and fewer of the longest"
    )
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(known))
    if unknown:
        parser.error(f"unknown measurement {', '.join(unknown)}; there are {', '.join(known)}")
    runs = () if given.runs is None else (given.runs,)
    for name in given.names or known:
        asyncio.run(_run(known[name], runs))


async def _run(measure: Callable[..., Awaitable[None]], runs: Sequence[int]) -> None:
    await measure(*runs)


if __name__ == "__main__":
    main()
