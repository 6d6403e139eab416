"""The six figures that matter: what users wait for, and what brokers spend their time on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Figure:
    """A measurement of a tree by a command of that tree, which prints a JSON object.

    `command` follows the interpreter, `key` names the figure in the object. `on_cluster`: the command takes
    `--bootstrap`; otherwise it starts a cluster of its own.
    """

    name: str
    unit: str
    key: str
    command: Sequence[str]
    on_cluster: bool = True
    is_time: bool = False

    def speed(self, old: float, new: float) -> float:
        """How many times as fast the new one is."""
        return old / new if self.is_time else new / old


def _perf(*arguments: str) -> Sequence[str]:
    return ("-m", "strandline_lab", "perf", *arguments, "-o", "json")


FIGURES: Final = (
    Figure("produce 100 B in bulk", "records/s", "records_per_s", _perf("produce", "--records", "2000000")),
    Figure(
        "produce 64 KiB, opaque", "MB/s", "mb_per_s",
        _perf("produce", "--api", "batch", "--record-size", "65536", "--batch-bytes", "65536",
              "--records", "4000"),
    ),
    Figure("one record, p50", "ms", "p50_ms", _perf("latency", "--records", "1500"), is_time=True),
    Figure(
        "consume 100 B in batches", "records/s", "records_per_s", _perf("consume", "--records", "2000000")
    ),
    Figure(
        "catch-up of a follower", "MB/s", "mb_per_s", ("-m", "strandline_lab.bench.log.catch_up", "30"),
        on_cluster=False
    ),
    Figure(
        "failover, p50 of 6 kills", "ms", "p50_ms", _perf("failover", "--rounds", "6"),
        on_cluster=False, is_time=True,
    ),
)  # fmt: skip

MEASURED_BY: Final = (
    "lab/strandline_lab/perf",
    "strandline/cli/load",
    "lab/strandline_lab/bench/log/catch_up.py",
)
"""Where the commands are. If these differ between two trees, so may what they measure."""
