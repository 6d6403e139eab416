"""Measures how fast one process produces: acks=all, three replicas, three partitions."""

from __future__ import annotations

from strandline import LocalCluster
from strandline_lab.bench.report import RUNS, heading
from strandline_lab.bench.runs import Question, ask, show

QUESTIONS = [
    Question("100 B, send_many", ["produce", "--api", "many", "--records", "3000000"]),
    Question("100 B, send", ["produce", "--api", "send", "--records", "1000000"]),
    Question("100 B, encoded beforehand", ["produce", "--api", "batch", "--records", "5000000"]),
    Question(
        "1 KiB, send_many", ["produce", "--api", "many", "--record-size", "1024", "--records", "400000"]
    ),
    Question("1 KiB, send", ["produce", "--api", "send", "--record-size", "1024", "--records", "400000"]),
    Question(
        "64 KiB, opaque",
        [
            "produce",
            "--api",
            "batch",
            "--record-size",
            "65536",
            "--batch-bytes",
            "65536",
            "--records",
            "10000",
        ],
    ),
]


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading("Produce, acks=all, 3 replicas, 1 producer", "produce")
    async with LocalCluster(brokers=3) as cluster:
        answers = await ask(cluster.bootstrap, QUESTIONS, runs)
    show(
        answers,
        {
            "records_per_s": "records/s",
            "mb_per_s": "MB/s",
            "p50_ms": "call p50, ms",
            "p99_ms": "call p99, ms",
        },
    )
