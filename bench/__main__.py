"""`python -m bench [--runs N] [name…]`: print the tables of all measurements, or of those named."""

from __future__ import annotations

import argparse
import asyncio
from importlib import import_module

from bench.report import RUNS

NAMES = (
    "produce",
    "consume",
    "latency",
    "failover",
    "availability",
    "handover",
    "catch_up",
    "scale",
    "state_changes",
    "leaders",
    "rebalance",
    "groups",
    "assignors",
    "stream_restore",
    "pipeline_read",
    "pipeline_write",
    "pipeline_batches",
    "pipeline_audit",
    "stream_counts",
    "stream_moves",
    "peers",
)


def main() -> None:
    """Run the measurements one after another."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Print tables of measurements.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"how often each is run; default: {RUNS}")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(NAMES))
    if unknown:
        parser.error(f"unknown measurement {', '.join(unknown)}; there are {', '.join(NAMES)}")
    for name in given.names or NAMES:
        asyncio.run(import_module(f"bench.{name}").measure(given.runs))


if __name__ == "__main__":
    main()
