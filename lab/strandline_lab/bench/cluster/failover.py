"""Measures the time without acknowledgements after the leader is killed: twenty kills in each of five
clusters."""

from __future__ import annotations

from strandline_lab.bench.report import RUNS, heading
from strandline_lab.bench.runs import Question, ask, show

QUESTIONS = [Question("kill -9 of the leader", ["failover", "--rounds", "20"])]


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading("Failover under an acks=all load, 3 replicas, 20 kills a run, ms", "failover")
    # The command starts a cluster of its own.
    answers = await ask(None, QUESTIONS, runs)
    show(
        answers,
        {
            "p50_ms": "to the next ack p50",
            "p99_ms": "p99",
            "max_ms": "max",
            "isr_whole_p50_ms": "restart to whole ISR p50",
            "lost": "acknowledged records lost",
        },
    )
