"""Measures how fast one process consumes existing records: three partitions, values of 100 bytes and 1
KiB."""

from __future__ import annotations

from strandline import LocalCluster
from strandline_lab.bench.report import RUNS, heading
from strandline_lab.bench.runs import Question, ask, show

QUESTIONS = [
    Question("100 B, getbatches (not decoded)", ["consume", "--api", "batches", "--records", "3000000"]),
    Question("100 B, getmany", ["consume", "--api", "many", "--records", "2000000"]),
    Question("100 B, one by one", ["consume", "--api", "one", "--records", "1000000"]),
    Question("1 KiB, getmany", ["consume", "--api", "many", "--record-size", "1024", "--records", "400000"]),
]


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading("Consume, 3 replicas, 1 consumer", "consume")
    async with LocalCluster(brokers=3) as cluster:
        answers = await ask(cluster.bootstrap, QUESTIONS, runs)
    show(answers, {"records_per_s": "records/s", "mb_per_s": "MB/s"})
