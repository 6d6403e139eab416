"""Measures what a join or leave costs the other members: eager and cooperative, one of ten members.

`python -m strandline_lab.bench.groups.rebalance [--runs N] [--partitions 100,1000]` uses other sizes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from strandline import LocalCluster
from strandline_lab.bench.report import RUNS, heading, median_of, table
from strandline_lab.bench.runs import perf_rows

MEMBERS: Final = 10
ROUNDS: Final = 3
PARTITIONS: Final = (100, 1_000)

FIGURES: Final = {
    "interrupted": "partitions interrupted",
    "moved": "of them moved",
    "unowned_p50_ms": "without an owner p50",
    "unowned_max_ms": "max",
    "silent_p50_ms": "a consumer without records p50",
    "silent_max_ms": "max",
    "quiet_max_ms": "the same without a change, max",
    "settle_p50_ms": "shared again after p50",
}


async def measure(runs: int = RUNS, partitions: Sequence[int] = PARTITIONS) -> None:
    """Prints the table."""
    heading(f"One of {MEMBERS} members comes or goes {ROUNDS} times a run, 3 brokers, ms", "rebalance")
    rows: list[tuple[int, Mapping[str, Any]]] = []
    async with LocalCluster(brokers=3) as cluster:
        for run in range(runs):
            for size in partitions:
                print(f"run {run + 1} of {runs}: {size} partitions", file=sys.stderr, flush=True)
                arguments = (
                    *("rebalance", "--partitions", str(size)),
                    *("--members", str(MEMBERS), "--rounds", str(ROUNDS)),
                )
                rows += [(size, row) for row in await perf_rows(cluster.bootstrap, arguments)]
    cases = dict.fromkeys((size, row["rebalance_protocol"], row["change"]) for size, row in rows)
    table(
        ["partitions", "protocol", "change", *FIGURES.values()],
        [
            [
                f"{size:,}",
                protocol,
                change,
                *(
                    median_of(
                        [
                            row[figure]
                            for of, row in rows
                            if (of, row["rebalance_protocol"], row["change"]) == (size, protocol, change)
                        ]
                    )
                    for figure in FIGURES
                ),
            ]
            for size, protocol, change in cases
        ],
    )


def main() -> None:
    """Reads sizes and runs from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--partitions", default=",".join(map(str, PARTITIONS)))
    given = parser.parse_args()
    asyncio.run(measure(given.runs, [int(size) for size in given.partitions.split(",")]))


if __name__ == "__main__":
    main()
