"""Connections that ask for nothing, by gRPC and to the port for Kafka clients: opening, memory, rest."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from strandline_lab.bench.scale.processes import BROKERS, Processes, running
from strandline_lab.bench.scale.series import Dimension, Figure
from strandline_lab.perf.worker_processes import WorkerProcesses

WORKERS: Final = 2
IDLE_S: Final = 30.0
OPENED_S_MAX: Final = 300.0
SETTINGS: Final = {"kafka_connections_max": 5_000, "kafka_client_connections_max": 5_000}
"""All connections come from one address."""
KINDS: Final = {"grpc": "gRPC", "kafka": "Kafka"}

FIGURES: Final = {
    f"{kind}_{name}": Figure(f"{label}: {head}", total)
    for kind, label in KINDS.items()
    for name, head, total in (
        ("opened_cpu_s", "CPU of all brokers for opening, s", True),
        ("connection_kib", "memory a connection, KiB", False),
        ("idle_cpu_percent", "idle CPU of all brokers more than without, % of a core", True),
        ("closed_cpu_s", "CPU of all brokers for closing, s", True),
    )
}


async def measure(size: int) -> Mapping[str, float]:
    """The figures of one cluster with `size` connections of one kind, then of the other."""
    async with running(kafka=True, **SETTINGS) as cluster:
        processes = Processes(cluster)
        await processes.quiet()
        bootstraps = {"grpc": cluster.bootstrap, "kafka": cluster.kafka_bootstrap}
        figures: dict[str, float] = {}
        for kind in KINDS:
            found = await _connected(processes, kind, bootstraps[kind].split(","), size)
            figures.update({f"{kind}_{name}": value for name, value in found.items()})
        return figures


async def _connected(processes: Processes, kind: str, addresses: list[str], size: int) -> dict[str, float]:
    alone = await _idle_cpu_s(processes)
    without_mib = processes.brokers_mib()
    each = -(-size // (WORKERS * len(addresses)))
    opened = each * WORKERS * len(addresses)
    async with WorkerProcesses(
        "strandline_lab.bench.scale.idle_clients", [[kind, *addresses]] * WORKERS
    ) as workers:
        before = processes.used()
        workers.send(f"open {each}")
        async with asyncio.timeout(OPENED_S_MAX):
            for worker in range(WORKERS):
                await anext(workers.lines(worker))
        opened_cpu_s = processes.since(before)["broker"]
        with_mib = processes.brokers_mib()
        idle = await _idle_cpu_s(processes)
        before = processes.used()
    await processes.quiet()
    return {
        "opened_cpu_s": opened_cpu_s,
        "connection_kib": 1024 * (with_mib - without_mib) / opened,
        "idle_cpu_percent": 100 * (idle - alone) / IDLE_S,
        "closed_cpu_s": processes.since(before)["broker"],
    }


async def _idle_cpu_s(processes: Processes) -> float:
    before = processes.used()
    await asyncio.sleep(IDLE_S)
    return processes.since(before)["broker"]


DIMENSION: Final = Dimension(
    "connections",
    f"Idle connections to {BROKERS} brokers",
    (10, 100, 1_000, 3_000, 10_000),
    FIGURES,
    measure,
)
