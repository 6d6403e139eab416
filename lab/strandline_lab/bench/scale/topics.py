"""Topics that are created at once, of one partition each, and their deletion.

A request names at most a thousand topics; all requests are sent at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline import NewTopic
from strandline.adapters.system.clock import SystemClock
from strandline.config.limits import TOPICS_PER_REQUEST_MAX
from strandline.tasks import pipelined
from strandline_lab.bench.cluster.leadership import PREFIX
from strandline_lab.bench.scale.processes import BROKERS, Processes, running_with_admin
from strandline_lab.bench.scale.series import Dimension, Figure

FIGURES: Final = {
    "created_s": Figure("created, from the first request to the last answer, s", total=True),
    "creation_brokers_cpu_s": Figure("creation, until all rests: CPU of all brokers, s", total=True),
    "creation_controller_cpu_s": Figure("creation, until all rests: CPU of the controller, s", total=True),
    "creation_zookeeper_cpu_s": Figure("creation, until all rests: CPU of ZooKeeper, s", total=True),
    "deleted_s": Figure("deleted, from the first request to the last answer, s", total=True),
    "deletion_brokers_cpu_s": Figure("deletion, until all rests: CPU of all brokers, s", total=True),
    "deletion_controller_cpu_s": Figure("deletion, until all rests: CPU of the controller, s", total=True),
}


async def measure(size: int) -> Mapping[str, float]:
    """The figures of one cluster in which `size` topics are created, and deleted."""
    clock = SystemClock()
    names = [f"{PREFIX}{number}" for number in range(size)]
    lots = [names[first : first + TOPICS_PER_REQUEST_MAX] for first in range(0, size, TOPICS_PER_REQUEST_MAX)]
    async with running_with_admin() as (cluster, admin):

        async def create(lot: list[str]) -> None:
            await admin.create_topics([NewTopic(name, 1, BROKERS) for name in lot])

        processes = Processes(cluster)
        await processes.quiet()
        before, began = processes.used(), clock.monotonic()
        await pipelined(create, lots, in_flight_max=len(lots))
        created_s = clock.monotonic() - began
        await processes.quiet()
        creation = processes.since(before)
        before, began = processes.used(), clock.monotonic()
        await pipelined(admin.delete_topics, lots, in_flight_max=len(lots))
        deleted_s = clock.monotonic() - began
        await processes.quiet()
        deletion = processes.since(before)
    return {
        "created_s": created_s,
        "creation_brokers_cpu_s": creation["broker"],
        "creation_controller_cpu_s": creation["controller"],
        "creation_zookeeper_cpu_s": creation["zookeeper"],
        "deleted_s": deleted_s,
        "deletion_brokers_cpu_s": deletion["broker"],
        "deletion_controller_cpu_s": deletion["controller"],
    }


DIMENSION: Final = Dimension(
    "topics",
    f"Topics created at once on {BROKERS} brokers",
    (10, 100, 1_000, 3_000, 10_000),
    FIGURES,
    measure,
)
