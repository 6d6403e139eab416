"""Measures a plaintext cluster and one with certificates in turns: throughput, latency, connections,
kills."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strandline import LocalCluster
from strandline.adapters.codecs.log import METADATA
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system_host import system_host
from strandline.config.client import ClientSettings
from strandline.vocabulary.log import MetadataQuery
from strandline_lab.bench.report import RUNS, heading, median_of, table
from strandline_lab.bench.runs import Answers, Question, perf

SHARE_MIN: Final = 0.6
"""Goal: the throughput with certificates, as a share of that in plaintext."""
ADDED_MS_MAX: Final = 0.2
"""Goal: what they add to the time of one record."""
CONNECTIONS: Final = 50
CALL_S_MAX: Final = 10.0
KILLS: Final = 8

CLOCK: Final = SystemClock()


@dataclass(frozen=True, slots=True)
class Figure:
    """A question, which of its figures is compared, and the goal; None: there is none."""

    question: Question
    name: str
    unit: str
    goal: str | None = None


FIGURES: Final = (
    Figure(
        Question("produce 100 B", ["produce", "--api", "many", "--records", "2000000"]),
        "records_per_s", "records/s", "share",
    ),
    Figure(
        Question(
            "produce 64 KiB, opaque",
            [
                "produce", "--api", "batch", "--record-size", "65536", "--batch-bytes", "65536",
                "--records", "8000",
            ],
        ),
        "mb_per_s", "MB/s", "share",
    ),
    Figure(
        Question("consume 100 B in batches", ["consume", "--api", "batches", "--records", "5000000"]),
        "records_per_s", "records/s", "share",
    ),
    Figure(Question("one record, acks=all, p50", ["latency", "--acks", "all"]), "p50_ms", "ms", "added"),
)  # fmt: skip


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading("Plaintext and mutual TLS in turns, 3 replicas, acks=all", "security")
    found: dict[str, dict[bool, list[float]]] = {}
    async with (
        LocalCluster(brokers=3) as plain,
        LocalCluster(brokers=3, secure=True) as secure,
    ):
        for run in range(runs):
            for figure in FIGURES:
                for cluster in (plain, secure):
                    _say(run, runs, f"{figure.question.name}, {'mTLS' if cluster.secure else 'plaintext'}")
                    answer = await _perf(cluster, figure.question)
                    both = found.setdefault(figure.question.name, {False: [], True: []})
                    both[cluster.secure].append(float(answer[figure.name]))
            for cluster in (plain, secure):
                both = found.setdefault("a new connection and one call, p50", {False: [], True: []})
                both[cluster.secure].append(await _connection_ms(cluster))
    failover = await _failover(runs)
    goals = {figure.question.name: figure for figure in FIGURES}
    table(
        ["", "unit", "plaintext", "mTLS", "mTLS / plaintext", "goal"],
        [
            _row(name, both, goals[name].unit if name in goals else "ms", goals.get(name))
            for name, both in {**found, **failover}.items()
        ],
    )


def _row(name: str, both: Mapping[bool, Sequence[float]], unit: str, figure: Figure | None) -> list[str]:
    plain, secure = (statistics.median(both[with_tls]) for with_tls in (False, True))
    said = ""
    if figure is not None and figure.goal == "share":
        said = f"≥ {SHARE_MIN:.0%}: {'met' if secure >= SHARE_MIN * plain else '**missed**'}"
    elif figure is not None and figure.goal == "added":
        said = f"+ {ADDED_MS_MAX} ms: {'met' if secure - plain <= ADDED_MS_MAX else '**missed**'}"
    return [name, unit, median_of(both[False]), median_of(both[True]), f"{secure / plain:.2f}", said]


async def _perf(cluster: LocalCluster, question: Question) -> Mapping[str, Any]:
    return await perf(None, [*question.arguments, "--dir", str(cluster.directory)])


async def _connection_ms(cluster: LocalCluster) -> float:
    """The median time of a new connection with its first call."""
    took = []
    address = cluster.bootstrap.partition(",")[0]
    for _ in range(CONNECTIONS):
        transport = system_host(ClientSettings(**cluster.client_settings)).transport(None)
        began = CLOCK.monotonic()
        await transport.call(address, METADATA, MetadataQuery([]), timeout_s=CALL_S_MAX)
        took.append(CLOCK.monotonic() - began)
        await transport.close()
    return statistics.median(took) * 1000


async def _failover(runs: int) -> dict[str, dict[bool, list[float]]]:
    """Each run kills leaders in a cluster of its own."""
    answers: dict[bool, Answers] = {False: [], True: []}
    for run in range(runs):
        for secure in (False, True):
            _say(run, runs, f"failover, {'mTLS' if secure else 'plaintext'}")
            arguments = ["failover", "--rounds", str(KILLS), *(["--secure"] if secure else [])]
            answers[secure].append(await perf(None, arguments))
    return {
        f"kill -9 to the next acknowledgement, {label} of {KILLS}": {
            secure: [float(answer[name]) for answer in found] for secure, found in answers.items()
        }
        for name, label in (("p50_ms", "p50"), ("max_ms", "worst"))
    }


def _say(run: int, runs: int, what: str) -> None:
    print(f"run {run + 1} of {runs}: {what}", file=sys.stderr, flush=True)
