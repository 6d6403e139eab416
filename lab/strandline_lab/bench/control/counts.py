"""What each process of a cluster has used and asked, between two moments: the arithmetic, and the formats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Requests = Mapping[str, float]
"""By kind: how many."""

_METRIC: Final = re.compile(
    r'^strandline_zookeeper_(requests|operations)_total\{operation="(\w+)"\} (\S+)$', re.MULTILINE
)
_RECEIVED: Final = re.compile(r"^Received: (\d+)$", re.MULTILINE)
_ZXID: Final = re.compile(r"^Zxid: 0x([0-9a-f]+)$", re.MULTILINE)
_EPOCH_BITS: Final = 32
"""A zxid has the epoch of ZooKeeper's leader above the number of the transaction."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one process, since its start or between two moments. `operations` are those in its requests to
    ZooKeeper: the writes of a multi, the znodes of a read."""

    cpu_ms: float = 0.0
    requests: Requests = field(default_factory=dict)
    operations: Requests = field(default_factory=dict)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.cpu_ms + other.cpu_ms,
            _sum(self.requests, other.requests),
            _sum(self.operations, other.operations),
        )

    def __mul__(self, factor: float) -> Counts:
        return Counts(self.cpu_ms * factor, _scaled(self.requests, factor), _scaled(self.operations, factor))

    def __sub__(self, before: Counts) -> Counts:
        return self + before * -1

    @property
    def requests_total(self) -> float:
        return sum(self.requests.values())

    @property
    def operations_total(self) -> float:
        return sum(self.operations.values())


NOTHING: Final = Counts()


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a cluster between two moments: of each process, and of ZooKeeper what all of them made it do."""

    seconds: float
    processes: Mapping[str, Counts]
    received: float
    """Packets that ZooKeeper received: requests of processes that ended meanwhile too, and pings."""
    transactions: float
    log_bytes: float
    """What ZooKeeper wrote to its log of transactions."""

    def without(self, rest: Usage) -> Usage:
        """What is left of it without the cost of rest, which `rest` has for its own seconds."""
        part = self.seconds / rest.seconds
        return Usage(
            self.seconds,
            {
                name: counts - rest.processes.get(name, NOTHING) * part
                for name, counts in self.processes.items()
            },
            self.received - rest.received * part,
            self.transactions - rest.transactions * part,
            self.log_bytes - rest.log_bytes * part,
        )

    def total(self, *kinds: str) -> Counts:
        """The sum over the processes of these kinds; of all without one."""
        return sum(
            (counts for name, counts in self.processes.items() if not kinds or name.split()[0] in kinds),
            NOTHING,
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "received": self.received,
            "transactions": self.transactions,
            "log_bytes": self.log_bytes,
            "processes": {
                name: {
                    "cpu_ms": counts.cpu_ms,
                    "requests": dict(counts.requests),
                    "operations": dict(counts.operations),
                }
                for name, counts in self.processes.items()
            },
        }


def mean(usages: Iterable[Usage]) -> Usage:
    """A usage that costs as much a second as these do on average, for equal times each."""
    each = list(usages)
    share = 1 / len(each)
    names = {name for usage in each for name in usage.processes}
    return Usage(
        1.0,
        {
            name: sum(
                (usage.processes.get(name, NOTHING) * (share / usage.seconds) for usage in each), NOTHING
            )
            for name in sorted(names)
        },
        sum(usage.received / usage.seconds for usage in each) * share,
        sum(usage.transactions / usage.seconds for usage in each) * share,
        sum(usage.log_bytes / usage.seconds for usage in each) * share,
    )


def requests_in(metrics: str) -> tuple[Requests, Requests]:
    """The requests to ZooKeeper, and the operations in them, that a process shows in Prometheus' format."""
    found: dict[str, dict[str, float]] = {"requests": {}, "operations": {}}
    for what, kind, value in _METRIC.findall(metrics):
        found[what][kind] = float(value)
    return found["requests"], found["operations"]


def packets_and_transactions(answer: str) -> tuple[int, int]:
    """The packets that a ZooKeeper server has received, and the number of its newest transaction, by its
    answer to `srvr`. Raises ValueError if they are not in it."""
    received, zxid = _RECEIVED.search(answer), _ZXID.search(answer)
    if received is None or zxid is None:
        raise ValueError(f"ZooKeeper's answer to srvr has no counters: {answer!r}")
    return int(received[1]), int(zxid[1], 16) & ((1 << _EPOCH_BITS) - 1)


def _sum(one: Requests, other: Requests) -> Requests:
    return {kind: one.get(kind, 0.0) + other.get(kind, 0.0) for kind in {**one, **other}}


def _scaled(counts: Requests, factor: float) -> Requests:
    return {kind: count * factor for kind, count in counts.items()}
