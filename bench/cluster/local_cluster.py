"""How long a local cluster takes until it serves, and to stop: medians, and the parts of it.

Run as `python -m bench.cluster.local_cluster [--brokers 3] [--rounds 5]`. The goal is 3 s for three brokers,
a controller and ZooKeeper (docs/run/performance.md).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time

from strandline.local.cluster import LocalCluster


async def measure(brokers: int, controllers: int, rounds: int) -> dict[str, list[float]]:
    """Seconds for each round, by what was done."""
    times: dict[str, list[float]] = {"start": [], "kill and restart a broker": [], "stop": []}
    for _ in range(rounds):
        cluster = LocalCluster(brokers, controllers=controllers)
        began = time.perf_counter()
        await cluster.start()
        served = time.perf_counter()
        try:
            if brokers:
                await cluster.kill_broker(1)
                await cluster.start_broker(1)
            restarted = time.perf_counter()
        finally:
            await cluster.stop(clean=False)
        times["start"].append(served - began)
        times["kill and restart a broker"].append(restarted - served)
        times["stop"].append(time.perf_counter() - restarted)
    return times


def main() -> int:
    """One JSON object a line: what, median, least and greatest seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--controllers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for what, seconds in asyncio.run(
        measure(arguments.brokers, arguments.controllers, arguments.rounds)
    ).items():
        facts = {"median_s": statistics.median(seconds), "min_s": min(seconds), "max_s": max(seconds)}
        print(json.dumps({"what": what, **{name: round(value, 3) for name, value in facts.items()}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
