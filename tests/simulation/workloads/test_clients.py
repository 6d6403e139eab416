"""Clients of workloads behave as applications: an error that may pass does not end them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.world import World
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.cleaning.topic import Cleaning
from strandline_lab.simulation.workloads.streams import Counting
from strandline_lab.simulation.workloads.workload import WorkloadPlan
from strandline_lab.simulation.workloads.writing import Writing

AWAY_S = 12.0
"""Longer than a consumer searches for a position before it says that there is none yet."""


def _writing() -> WorkloadPlan:
    return Writing(name="t", partitions=1, writers=1, pause_s=0.5, synced=True)


def _cleaning() -> WorkloadPlan:
    return Cleaning(
        name="t", policy="compact", partitions=1, writers=1, pause_s=0.5, keys=2, synced=True, tombstones_ms=0
    )


def _counting() -> WorkloadPlan:
    return Counting(
        name="t", partitions=1, pause_s=0.5, members=1, standbys=0, acceptable_lag=0, change_s=3_600.0
    )


@pytest.mark.parametrize("plan", [_writing, _cleaning, _counting])
def test_clients_that_start_while_no_broker_runs_work_later(plan: Callable[[], WorkloadPlan]) -> None:
    """A start is refused, or finds no position for a long time."""
    with World(1) as world:
        cluster = Cluster(world)
        stage = Stage(cluster)
        workload = plan().workload(stage)

        async def main() -> None:
            await workload.prepare()
            for broker in cluster.brokers:
                broker.kill()
            running = asyncio.get_running_loop().create_task(workload.run())
            await asyncio.sleep(AWAY_S)
            assert not running.done()
            for number in range(len(cluster.brokers)):
                cluster.start_broker(number)
            await asyncio.sleep(AWAY_S)
            stage.faults_ended.set()
            await workload.finish()
            await running

        world.run(main())
        assert world.defects == []
    assert workload.problems() == []
    assert workload.counts()["records"] > 5
