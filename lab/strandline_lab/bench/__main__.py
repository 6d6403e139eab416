"""`python -m strandline_lab.bench [--runs N] [name…]`: prints tables of measurements."""

from __future__ import annotations

import argparse
import asyncio
from importlib import import_module

from strandline_lab.bench.report import RUNS

MODULES = {
    "produce": "log.produce",
    "consume": "log.consume",
    "latency": "log.latency",
    "failover": "cluster.failover",
    "availability": "cluster.availability",
    "handover": "cluster.handover",
    "security": "security.encryption",
    "catch_up": "log.catch_up",
    "budget": "log.budget",
    "scale": "cluster.scale",
    "scale_curves": "scale.curves",
    "balance": "cluster.balance",
    "balance_moves": "cluster.balance_moves",
    "state_changes": "cluster.state_changes",
    "leaders": "cluster.leaders",
    "storage": "log.storage",
    "local_cluster": "cluster.local_cluster",
    "in_memory": "cluster.in_memory",
    "rebalance": "groups.rebalance",
    "groups": "groups.groups",
    "assignors": "groups.assignors",
    "stream_restore": "streams.restore",
    "pipeline_read": "pipeline.read",
    "pipeline_write": "pipeline.write",
    "pipeline_batches": "pipeline.batches",
    "pipeline_audit": "pipeline.audit",
    "stream_counts": "streams.counts",
    "stream_moves": "streams.moves",
    "simulation": "simulation.speed",
    "peers": "log.peers",
    "kafka": "kafka.compare",
    "console": "console.views",
}
"""The measurements in the order in which they run, and the module of each."""


def main() -> None:
    """Runs the measurements one after another."""
    parser = argparse.ArgumentParser(
        prog="python -m strandline_lab.bench", description="Print tables of measurements."
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(MODULES)}; default: all")
    parser.add_argument(
        "--runs", type=int, help=f"runs of each measurement; default: {RUNS}, and fewer of the longest"
    )
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(MODULES))
    if unknown:
        parser.error(f"unknown measurement {', '.join(unknown)}; there are {', '.join(MODULES)}")
    runs = () if given.runs is None else (given.runs,)
    for name in given.names or MODULES:
        asyncio.run(import_module(f"bench.{MODULES[name]}").measure(*runs))


if __name__ == "__main__":
    main()
