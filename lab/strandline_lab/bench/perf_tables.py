"""Tables of what `strandline-lab perf` answers: producing, consuming, latency, failover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from strandline import LocalCluster
from strandline_lab.bench.report import RUNS, heading
from strandline_lab.bench.runs import Question, ask, show

KIB_64: Final = ["--record-size", "65536", "--batch-bytes", "65536"]


@dataclass(frozen=True, slots=True)
class PerfTable:
    """A row for each question, a column for each figure (name in the JSON → heading).

    `on_cluster`: one cluster of three brokers serves all runs; otherwise each command starts its own.
    """

    name: str
    title: str
    questions: Sequence[Question]
    figures: Mapping[str, str]
    on_cluster: bool = True

    async def measure(self, runs: int = RUNS) -> None:
        """Prints the table."""
        heading(self.title, self.name)
        async with AsyncExitStack() as serving:
            bootstrap = None
            if self.on_cluster:
                bootstrap = (await serving.enter_async_context(LocalCluster(brokers=3))).bootstrap
            answers = await ask(bootstrap, self.questions, runs)
        show(answers, self.figures)


RATES: Final = {"records_per_s": "records/s", "mb_per_s": "MB/s"}

PRODUCE: Final = PerfTable(
    "produce",
    "Produce, acks=all, 3 replicas, 1 producer",
    [
        Question("100 B, send_many", ["produce", "--api", "many", "--records", "3000000"]),
        Question("100 B, send", ["produce", "--api", "send", "--records", "1000000"]),
        Question("100 B, encoded beforehand", ["produce", "--api", "batch", "--records", "5000000"]),
        Question(
            "1 KiB, send_many", ["produce", "--api", "many", "--record-size", "1024", "--records", "400000"]
        ),
        Question("1 KiB, send", ["produce", "--api", "send", "--record-size", "1024", "--records", "400000"]),
        Question("64 KiB, opaque", ["produce", "--api", "batch", *KIB_64, "--records", "10000"]),
    ],
    {**RATES, "p50_ms": "call p50, ms", "p99_ms": "call p99, ms"},
)
CONSUME: Final = PerfTable(
    "consume",
    "Consume, 3 replicas, 1 consumer",
    [
        Question("100 B, getbatches (not decoded)", ["consume", "--api", "batches", "--records", "3000000"]),
        Question("100 B, getmany", ["consume", "--api", "many", "--records", "2000000"]),
        Question("100 B, one by one", ["consume", "--api", "one", "--records", "1000000"]),
        Question(
            "1 KiB, getmany", ["consume", "--api", "many", "--record-size", "1024", "--records", "400000"]
        ),
    ],
    RATES,
)
LATENCY: Final = PerfTable(
    "latency",
    "Latency of one record of 100 B, 3 replicas, ms",
    [
        Question("acks=all", ["latency", "--acks", "all"]),
        Question("acks=1", ["latency", "--acks", "1"]),
        Question("acks=all, fsync first", ["latency", "--acks", "all", "--config", "flush.messages=1"]),
    ],
    {
        "p50_ms": "commit p50",
        "p99_ms": "commit p99",
        "max_ms": "commit max",
        "end_to_end_p50_ms": "to a consumer p50",
        "end_to_end_p99_ms": "to a consumer p99",
    },
)
FAILOVER: Final = PerfTable(
    "failover",
    "Failover under an acks=all load, 3 replicas, 20 kills a run, ms",
    [Question("kill -9 of the leader", ["failover", "--rounds", "20"])],
    {
        "p50_ms": "to the next ack p50",
        "p99_ms": "p99",
        "max_ms": "max",
        "isr_whole_p50_ms": "restart to whole ISR p50",
        "lost": "acknowledged records lost",
    },
    on_cluster=False,
)
TABLES: Final = (PRODUCE, CONSUME, LATENCY, FAILOVER)
