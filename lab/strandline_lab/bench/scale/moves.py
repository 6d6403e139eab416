"""Replicas that a drain moves off a broker: CPU of the controller, which begins a bounded number at a time.

Every partition is empty and has one replica more than a copy: a move costs its coordination.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from strandline.adapters.system.clock import SystemClock
from strandline_lab.bench.cluster.leadership import PREFIX
from strandline_lab.bench.scale.partitions import create
from strandline_lab.bench.scale.processes import Processes, running_with_admin
from strandline_lab.bench.scale.series import Dimension, Figure

REPLICAS: Final = 2
DRAINED: Final = 1
LOOK_S: Final = 2.0

FIGURES: Final = {
    "moved_s": Figure("drain of a broker → it has no replica, s", total=True),
    "controller_cpu_s": Figure("CPU of the controller for that, s", total=True),
    "brokers_cpu_s": Figure("CPU of all brokers for that, s", total=True),
    "moves": Figure("moves"),
}


async def measure(size: int) -> Mapping[str, float]:
    """The figures of one cluster with `size` partitions."""
    clock = SystemClock()
    async with running_with_admin() as (cluster, admin):
        await create(admin, size, REPLICAS)
        processes = Processes(cluster)
        await processes.quiet()

        def left() -> int:
            """Asks no process, which would do more than what is measured."""
            return sum(1 for folder in cluster.data_dir(DRAINED).iterdir() if folder.name.startswith(PREFIX))

        moves, before, began = left(), processes.used(), clock.monotonic()
        await admin.drain_broker(DRAINED, replicas=True)
        while True:
            await asyncio.sleep(LOOK_S)
            if not left():
                break
        used = processes.since(before)
        return {
            "moved_s": clock.monotonic() - began,
            "controller_cpu_s": used["controller"],
            "brokers_cpu_s": used["broker"],
            "moves": moves,
        }


DIMENSION: Final = Dimension(
    "moves", "Replicas that a drain moves to two other brokers", (100, 300, 1_000, 3_000), FIGURES, measure
)
