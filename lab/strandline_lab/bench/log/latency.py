"""Measures the time of one record until it is committed, and until a consumer has it: one in flight, three
replicas."""

from __future__ import annotations

from strandline import LocalCluster
from strandline_lab.bench.report import RUNS, heading
from strandline_lab.bench.runs import Question, ask, show

QUESTIONS = [
    Question("acks=all", ["latency", "--acks", "all"]),
    Question("acks=1", ["latency", "--acks", "1"]),
    Question("acks=all, fsync first", ["latency", "--acks", "all", "--config", "flush.messages=1"]),
]


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading("Latency of one record of 100 B, 3 replicas, ms", "latency")
    async with LocalCluster(brokers=3) as cluster:
        answers = await ask(cluster.bootstrap, QUESTIONS, runs)
    show(
        answers,
        {
            "p50_ms": "commit p50",
            "p99_ms": "commit p99",
            "max_ms": "commit max",
            "end_to_end_p50_ms": "to a consumer p50",
            "end_to_end_p99_ms": "to a consumer p99",
        },
    )
