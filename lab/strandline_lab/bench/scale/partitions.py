"""Partitions, all idle: creation, memory, rest, their metadata, the loss of a broker, and its return.

They are on three brokers, each with three replicas, or with one so that there can be more of them. Every
topic has ten partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from strandline import Admin, LocalCluster, NewTopic
from strandline.adapters.system.clock import SystemClock
from strandline.config.limits import TOPICS_PER_REQUEST_MAX
from strandline_lab.bench.cluster.leadership import (
    PREFIX,
    leaders,
    left_all_isrs,
    moved_after_s,
    whole_after_s,
)
from strandline_lab.bench.report import cpu_s
from strandline_lab.bench.scale.processes import (
    BROKERS,
    QUIET_CPU_S,
    START_S_MAX,
    Processes,
    running_with_admin,
)
from strandline_lab.bench.scale.series import Dimension, Figure

PARTITIONS_PER_TOPIC: Final = 10
IDLE_S: Final = 120.0
"""In this time each broker compares itself with all of ZooKeeper once (`FULL_RECONCILE_EVERY`)."""

REST_CPU_S: Final = 0.000_3
"""What a partition may cost at rest within a window of `Processes.quiet`."""

CREATED: Final = {
    "created_s": Figure("created, from the request to its answer, s", total=True),
    "creation_brokers_cpu_s": Figure("creation, until all rests: CPU of all brokers, s", total=True),
    "creation_controller_cpu_s": Figure("creation, until all rests: CPU of the controller, s", total=True),
    "creation_zookeeper_cpu_s": Figure("creation, until all rests: CPU of ZooKeeper, s", total=True),
    "replica_kib": Figure("memory a replica, KiB"),
    "idle_cpu_percent": Figure("idle CPU a broker, % of a core", total=True),
    "metadata_s": Figure("metadata of all, read anew, s", total=True),
    "metadata_cpu_s": Figure("CPU of all brokers for metadata of all, s", total=True),
}
LOST: Final = {
    "elsewhere_s": Figure("kill of a broker → all that it led is led elsewhere, s", total=True),
    "elsewhere_cpu_s": Figure("CPU of the others after that kill, s", total=True),
    "back_s": Figure("start of the killed broker → it serves, s", total=True),
    "whole_s": Figure("start of the killed broker → it is in all ISRs again, s", total=True),
    "back_cpu_s": Figure("CPU of that broker until all rests, s", total=True),
}


async def measure(size: int) -> Mapping[str, float]:
    """The figures of one cluster with `size` partitions of three replicas."""
    async with running_with_admin() as (cluster, admin):
        processes = _processes(cluster, size)
        return {
            **await _created(admin, processes, size, BROKERS),
            **await _lost_and_back(cluster, admin, size),
        }


async def measure_single(size: int) -> Mapping[str, float]:
    """The figures of one cluster with `size` partitions of one replica."""
    async with running_with_admin() as (cluster, admin):
        return await _created(admin, _processes(cluster, size), size, 1)


def _processes(cluster: LocalCluster, size: int) -> Processes:
    return Processes(cluster, max(QUIET_CPU_S, size * REST_CPU_S))


async def create(admin: Admin, size: int, replicas: int) -> None:
    """Creates this many partitions, by requests of as many topics as one may name."""
    topics = [
        NewTopic(f"{PREFIX}{n}", PARTITIONS_PER_TOPIC, replicas) for n in range(size // PARTITIONS_PER_TOPIC)
    ]
    for first in range(0, len(topics), TOPICS_PER_REQUEST_MAX):
        await admin.create_topics(topics[first : first + TOPICS_PER_REQUEST_MAX])


async def _created(admin: Admin, processes: Processes, size: int, replicas: int) -> dict[str, float]:
    """Creates them, lets them rest, and asks for them."""
    await processes.quiet()
    clock, empty_mib, before = SystemClock(), processes.brokers_mib(), processes.used()
    began = clock.monotonic()
    await create(admin, size, replicas)
    created_s = clock.monotonic() - began
    await processes.quiet()
    used, replicas_mib = processes.since(before), processes.brokers_mib() - empty_mib
    before = processes.used()
    await asyncio.sleep(IDLE_S)
    idle = processes.since(before)["broker"]
    return {
        "created_s": created_s,
        **{f"creation_{kind}_cpu_s": used[kind] for kind in ("controller", "zookeeper")},
        "creation_brokers_cpu_s": used["broker"],
        "replica_kib": 1024 * replicas_mib / (size * replicas),
        "idle_cpu_percent": 100 * idle / BROKERS / IDLE_S,
        **await _described(admin, processes),
    }


async def _described(admin: Admin, processes: Processes) -> dict[str, float]:
    clock, before = SystemClock(), processes.used()
    began = clock.monotonic()
    await admin.metadata()
    return {"metadata_s": clock.monotonic() - began, "metadata_cpu_s": processes.since(before)["broker"]}


async def _lost_and_back(cluster: LocalCluster, admin: Admin, size: int) -> dict[str, float]:
    """Kills the broker that leads the most, and starts it again."""
    clock, victim = SystemClock(), (await leaders(admin)).most_common(1)[0][0]
    others = [cluster.pid(broker) for broker in cluster.broker_ids if broker != victim]
    before, killed_at_ms = sum(map(cpu_s, others)), clock.wall_ms()
    await cluster.kill_broker(victim)
    elsewhere_s = await moved_after_s(admin, victim, killed_at_ms)
    elsewhere_cpu_s = sum(map(cpu_s, others)) - before
    await left_all_isrs(admin, victim)
    began, began_ms = clock.monotonic(), clock.wall_ms()
    await cluster.start_broker(victim, wait_s=START_S_MAX)
    back_s = clock.monotonic() - began
    whole_s = await whole_after_s(admin, victim, began_ms)
    await _processes(cluster, size).quiet()
    return {
        "elsewhere_s": elsewhere_s,
        "elsewhere_cpu_s": elsewhere_cpu_s,
        "back_s": back_s,
        "whole_s": whole_s,
        "back_cpu_s": cpu_s(cluster.pid(victim)),
    }


DIMENSION: Final = Dimension(
    "partitions",
    f"Partitions with {BROKERS} replicas on {BROKERS} brokers",
    (100, 300, 1_000, 3_000, 10_000),
    CREATED | LOST,
    measure,
)
SINGLE: Final = Dimension(
    "single_partitions",
    f"Partitions with one replica on {BROKERS} brokers",
    (1_000, 10_000, 30_000),
    CREATED,
    measure_single,
)
