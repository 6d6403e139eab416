"""Looks at the processes of a cluster: their processor time, their metrics, ZooKeeper's counters and log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline import LocalCluster
from strandline.adapters.system.clock import SystemClock
from strandline.local.members.member_status import MemberStatus
from strandline.local.ports import answer_of
from strandline.local.zookeeper_process import four_letter_word
from strandline_lab.bench.control.counts import (
    NOTHING,
    Counts,
    Usage,
    packets_and_transactions,
    requests_in,
)
from strandline_lab.bench.report import cpu_s

SCRAPE: Final = b"GET /metrics HTTP/1.1\r\nHost: bench\r\n\r\n"
ANSWER_S_MAX: Final = 30.0
CPU_LOOK_S: Final = 0.005
"""How often the processor time of a process that is about to end is read."""
ZOOKEEPER: Final = "zookeeper"


@dataclass(frozen=True, slots=True)
class Look:
    """All counters at one moment; of each process with its pid."""

    at_s: float
    processes: Mapping[str, tuple[int, Counts]]
    received: int
    transactions: int
    log_bytes: int

    def since(self, before: Look, ended: Mapping[str, float] | None = None) -> Usage:
        """What was used between two looks. A process that began meanwhile counts from its start; of one that
        ended, `ended` has its processor time until then, in milliseconds."""
        used: dict[str, Counts] = {}
        for name, (pid, counts) in self.processes.items():
            known, earlier = before.processes.get(name, (0, NOTHING))
            used[name] = counts - earlier if known == pid else counts
        for name, cpu_ms in (ended or {}).items():  # another name: it does not rest afterwards
            used[f"{name} until its end"] = Counts(cpu_ms - before.processes[name][1].cpu_ms)
        return Usage(
            self.at_s - before.at_s,
            used,
            self.received - before.received,
            self.transactions - before.transactions,
            self.log_bytes - before.log_bytes,
        )


async def look(cluster: LocalCluster, *, cpu_first: bool) -> Look:
    """Reads all counters. Reading costs processor time: a look at the end of a span reads that first
    (`cpu_first`), a look at its beginning last."""
    running = {f"{member.kind} {member.id}": member for member in cluster.members() if member.pid is not None}
    clock = SystemClock()
    at_s, cpu_ms = clock.monotonic(), _cpu_ms(running)
    asked = {name: await _asked(member) for name, member in running.items()}
    port = int(cluster.zookeeper.rpartition(":")[2])
    received, transactions = packets_and_transactions(await four_letter_word(port, "srvr"))
    log_bytes = await asyncio.to_thread(written, cluster.directory / "zookeeper")
    if not cpu_first:
        at_s, cpu_ms = clock.monotonic(), _cpu_ms(running)
    processes = {
        name: (member.pid or 0, Counts(cpu_ms[name]) + asked[name]) for name, member in running.items()
    }
    return Look(at_s, processes, received, transactions, log_bytes)


async def cpu_until_end_ms(pid: int) -> float:
    """The processor time of a process when it ended."""
    last = 0.0
    while True:
        try:
            last = max(last, 1_000 * cpu_s(pid))
        except (FileNotFoundError, ProcessLookupError):
            return last
        await asyncio.sleep(CPU_LOOK_S)


def written(folder: Path) -> int:
    """The bytes in ZooKeeper's logs of transactions. Their files are longer: they end in zeros."""
    return sum(len(path.read_bytes().rstrip(b"\0")) for path in folder.rglob("log.*"))


def _cpu_ms(running: Mapping[str, MemberStatus]) -> dict[str, float]:
    return {name: 1_000 * cpu_s(member.pid) for name, member in running.items() if member.pid is not None}


async def _asked(member: MemberStatus) -> Counts:
    """What a process has asked ZooKeeper so far. Raises RuntimeError if it does not show it."""
    if member.kind == ZOOKEEPER:
        return NOTHING
    assert member.metrics_port is not None, "every member of a local cluster has one"
    answer = await answer_of(member.metrics_port, SCRAPE, ANSWER_S_MAX)
    requests, operations = requests_in(answer.decode().replace("\r\n", "\n"))
    if not requests:
        raise RuntimeError(f"{member.kind} {member.id} shows no requests to ZooKeeper")
    return Counts(0.0, requests, operations)
