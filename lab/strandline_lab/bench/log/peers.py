"""Compares the log with Redis streams with two replicas and WAIT 2, measured in turns.

The guarantees differ. Redis acknowledges when both replicas have a record in memory. Here all in-sync
replicas have it in the page cache, and any of the three processes may die without an operator having to act.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis

from strandline import LocalCluster
from strandline_lab.bench.log import redis_peer
from strandline_lab.bench.report import RUNS, heading, median_of, table
from strandline_lab.bench.runs import perf


@dataclass(frozen=True, slots=True)
class Comparison:
    """One kind of work: ours as arguments of `strandline-lab perf`, theirs as a function of a client."""

    name: str
    figure: str
    unit: str
    ours: Sequence[str]
    theirs: Callable[[redis.Redis], Mapping[str, Any]]


COMPARISONS = [
    Comparison(
        "produce 100 B in bulk", "records_per_s", "records/s",
        ["produce", "--api", "many", "--records", "2000000"],
        partial(redis_peer.produce, records=200_000, record_size=100),
    ),
    Comparison(
        "produce 100 B by send", "records_per_s", "records/s",
        ["produce", "--api", "send", "--records", "1000000"],
        partial(redis_peer.produce, records=200_000, record_size=100),
    ),
    Comparison(
        "produce 1 KiB in bulk", "records_per_s", "records/s",
        ["produce", "--api", "many", "--record-size", "1024", "--records", "300000"],
        partial(redis_peer.produce, records=100_000, record_size=1024),
    ),
    Comparison(
        "produce 64 KiB, opaque", "mb_per_s", "MB/s",
        ["produce", "--api", "batch", "--record-size", "65536", "--batch-bytes", "65536",
         "--records", "5000"],
        partial(redis_peer.produce, records=3_000, record_size=65536, pipeline=64),
    ),
    Comparison(
        "one record of 100 B, p50", "p50_ms", "ms",
        ["latency"],
        partial(redis_peer.latency, records=5_000, record_size=100),
    ),
    Comparison(
        "consume 100 B in lists", "records_per_s", "records/s",
        ["consume", "--api", "many", "--records", "1000000"],
        partial(redis_peer.consume, records=200_000, record_size=100),
    ),
]  # fmt: skip


async def measure(runs: int = RUNS) -> None:
    """Prints the table: medians, and the ratio of medians (for ms: how many times longer ours takes)."""
    heading("Beside Redis 7 streams, 2 replicas, WAIT 2 (redis-py, hiredis)", "peers")
    ours: dict[str, list[float]] = {each.name: [] for each in COMPARISONS}
    theirs: dict[str, list[float]] = {each.name: [] for each in COMPARISONS}
    async with LocalCluster(brokers=3) as cluster, redis_peer.cluster() as client:
        for run in range(runs):
            for each in COMPARISONS:
                print(f"run {run + 1} of {runs}: {each.name}", file=sys.stderr, flush=True)
                ours[each.name].append((await perf(cluster.bootstrap, each.ours))[each.figure])
                theirs[each.name].append(each.theirs(client)[each.figure])
    table(
        ["", "", "strandline", "Redis", "strandline / Redis"],
        [
            [
                each.name,
                each.unit,
                median_of(ours[each.name]),
                median_of(theirs[each.name]),
                f"{statistics.median(ours[each.name]) / statistics.median(theirs[each.name]):.2f}",
            ]
            for each in COMPARISONS
        ],
    )
