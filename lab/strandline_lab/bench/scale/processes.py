"""The cluster that is measured: its processes, their processor time and memory, and when they rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from strandline import Admin, LocalCluster
from strandline_lab.bench.report import cpu_s, resident_mib

BROKERS: Final = 3
START_S_MAX: Final = 240.0
SESSION: Final = {"zookeeper_session_timeout_ms": 30_000}
PATIENCE: Final = {"keep_in_sync_ms": 30_000, "leader_silence_ms": 30_000, "follower_silence_ms": 30_000}
"""ZooKeeper and all brokers share a disk and a few cores, so they are late meanwhile: the ends of sessions,
elections and changes of ISRs that follow from that would be measured in place of the work."""
QUIET_WINDOW_S: Final = 3.0
QUIET_CPU_S: Final = 0.6
"""What all processes together use at most within a window while they have nothing left to do. Many partitions
cost more than this at rest."""
QUIET_S_MAX: Final = 240.0


@asynccontextmanager
async def running(*, kafka: bool = False, **broker_settings: Any) -> AsyncIterator[LocalCluster]:
    """A new cluster, from its start to its end."""
    cluster = LocalCluster(
        BROKERS,
        broker_settings={**SESSION, **PATIENCE, **broker_settings},
        controller_settings=SESSION,
        kafka=kafka,
    )
    await cluster.start(timeout_s=START_S_MAX)
    try:
        yield cluster
    finally:
        await cluster.stop(clean=False)


@asynccontextmanager
async def running_with_admin() -> AsyncIterator[tuple[LocalCluster, Admin]]:
    """A new cluster, and a client that waits for large requests."""
    async with running() as cluster, Admin(cluster.bootstrap, request_timeout_ms=300_000) as admin:
        yield cluster, admin


class Processes:
    """Brokers, controllers and ZooKeeper of a cluster, all running when this is made.

    `rest_cpu_s` is what they use together within a window of QUIET_WINDOW_S with nothing left to do.
    """

    def __init__(self, cluster: LocalCluster, rest_cpu_s: float = QUIET_CPU_S) -> None:
        self._rest_cpu_s = rest_cpu_s
        self._pids: dict[str, list[int]] = {}
        for member in cluster.members():
            assert member.pid is not None, f"{member.kind} {member.id} does not run"
            self._pids.setdefault(member.kind, []).append(member.pid)

    def used(self) -> dict[str, float]:
        """The processor time that each kind has used so far, in seconds."""
        return {kind: sum(map(cpu_s, pids)) for kind, pids in self._pids.items()}

    def since(self, before: Mapping[str, float]) -> dict[str, float]:
        """The processor time that each kind has used since, in seconds."""
        return {kind: used - before[kind] for kind, used in self.used().items()}

    def brokers_mib(self) -> float:
        """The resident memory of all brokers together."""
        return sum(map(resident_mib, self._pids["broker"]))

    async def quiet(self) -> None:
        """Returns once what was asked for is done, with all that follows from it. Raises TimeoutError."""
        await at_rest([pid for pids in self._pids.values() for pid in pids], self._rest_cpu_s)


async def at_rest(pids: Sequence[int], rest_cpu_s: float = QUIET_CPU_S) -> None:
    """Returns once these processes use at most this together, in seconds within a window of QUIET_WINDOW_S.
    Raises TimeoutError."""
    async with asyncio.timeout(QUIET_S_MAX):
        while True:
            before = sum(map(cpu_s, pids))
            await asyncio.sleep(QUIET_WINDOW_S)
            if sum(map(cpu_s, pids)) - before < rest_cpu_s:
                return
