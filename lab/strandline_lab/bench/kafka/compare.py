"""Compares the Kafka port with gRPC on the same brokers, in turns: librdkafka through confluent-kafka, and
`strandline-lab perf`. acks=all, three replicas, three partitions."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strandline import Admin, LocalCluster
from strandline_lab.bench.kafka.faults import IDLE_CONSUMERS, IDLE_SETTINGS, failover, idle_cpu
from strandline_lab.bench.kafka.processes import new_topic, run_client
from strandline_lab.bench.report import heading, median_of, table
from strandline_lab.bench.runs import perf

RUNS: Final = 3
KILLS: Final = 5


@dataclass(frozen=True, slots=True)
class Comparison:
    """One kind of work: the figures to show, librdkafka's work and options, and the arguments of `perf`."""

    name: str
    figures: Mapping[str, str]
    theirs: Sequence[str]
    ours: Sequence[str]


PER_S: Final = {"records_per_s": "records/s"}
MB_PER_S: Final = {"mb_per_s": "MB/s"}
BATCH: Final = ["produce", "--api", "batch", "--record-size"]
COMPARISONS: Final = [
    Comparison(
        "produce 100 B in bulk", PER_S,
        ["produce", "records=2000000", "size=100"],
        ["produce", "--records", "2000000"],
    ),
    Comparison(
        "produce 1 KiB in bulk", PER_S,
        ["produce", "records=300000", "size=1024"],
        ["produce", "--record-size", "1024", "--records", "300000"],
    ),
    Comparison(
        "produce 64 KiB, opaque", MB_PER_S,
        ["produce", "records=10000", "size=65536"],
        [*BATCH, "65536", "--batch-bytes", "65536", "--records", "10000"],
    ),
    Comparison(
        "1 KiB, a batch each, 32 in flight", PER_S,
        ["produce_small", "records=100000", "size=1024", "in_flight=32"],
        [*BATCH, "1024", "--batch-bytes", "1024", "--records", "100000", "--in-flight", "11"],
    ),
    Comparison(
        "one record of 100 B", {"p50_ms": "p50, ms", "p99_ms": "p99, ms"},
        ["latency", "records=5000"],
        ["latency"],
    ),
    Comparison(
        "consume 100 B in lists", PER_S,
        ["consume", "records=1000000"],
        ["consume", "--api", "many", "--records", "1000000"],
    ),
]  # fmt: skip


async def measure(runs: int = RUNS) -> None:
    """Prints the table of comparisons, and the table of single figures."""
    heading("Kafka port (librdkafka) beside gRPC, acks=all, 3 replicas", "kafka")
    theirs: dict[tuple[str, str], list[float]] = {}
    ours: dict[tuple[str, str], list[float]] = {}
    idle: list[float] = []
    async with LocalCluster(brokers=3, kafka=True, broker_settings=IDLE_SETTINGS) as cluster:
        for run in range(runs):
            for each in COMPARISONS:
                print(f"run {run + 1} of {runs}: {each.name}", file=sys.stderr, flush=True)
                by_kafka = await _by_librdkafka(cluster, each.theirs)
                by_grpc = await perf(cluster.bootstrap, each.ours)
                for figure in each.figures:
                    theirs.setdefault((each.name, figure), []).append(by_kafka[figure])
                    ours.setdefault((each.name, figure), []).append(by_grpc[figure])
                    print(f"{by_kafka[figure]:.6g} and {by_grpc[figure]:.6g}", file=sys.stderr, flush=True)
            print(f"run {run + 1} of {runs}: idle consumers", file=sys.stderr, flush=True)
            idle.append(await idle_cpu(cluster))
    rows = [
        [each.name, unit, median_of(theirs[each.name, figure]), median_of(ours[each.name, figure])]
        for each in COMPARISONS
        for figure, unit in each.figures.items()
    ]
    kills: list[float] = []
    kills_grpc: list[float] = []
    for run in range(runs):
        print(f"run {run + 1} of {runs}: kill -9 of the leader", file=sys.stderr, flush=True)
        kills.append(statistics.median(await failover(KILLS)))
        kills_grpc.append((await perf(None, ["failover", "--rounds", str(KILLS)]))["p50_ms"])
    table(
        ["", "", "librdkafka, Kafka port", "strandline, gRPC"],
        [
            *rows,
            [f"{IDLE_CONSUMERS:,} idle consumers of one leader: its CPU", "% of a core", median_of(idle), ""],
            ["kill -9 of the leader to the next ack, p50", "ms", median_of(kills), median_of(kills_grpc)],
        ],
    )


async def _by_librdkafka(cluster: LocalCluster, work: Sequence[str]) -> Mapping[str, Any]:
    """Runs a work of `client` on a new topic. Raises as `run`."""
    kind, *options = work
    async with Admin(cluster.bootstrap) as admin, new_topic(admin, kind) as topic:
        if kind == "consume":
            await run_client(cluster.kafka_bootstrap, "produce", topic, *options, "size=100")
        return await run_client(cluster.kafka_bootstrap, kind, topic, *options)
