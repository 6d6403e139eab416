"""How `strandline broker drain` waits, on virtual time."""

from __future__ import annotations

import asyncio

from strandline.cli.cluster.broker import drained
from strandline.testing import SimulatedCluster

WANTED = {"replicas": True, "throttle_bytes_per_s": 0, "until_restart": False}


def test_a_drain_that_another_takes_back_is_not_begun_anew_by_one_that_waits(
    simulated_cluster: SimulatedCluster,
) -> None:
    """As after `broker drain 3 --undo` in another terminal."""
    cluster = simulated_cluster
    notes: list[str] = []

    async def taken_back() -> None:
        await cluster.create_topic("everywhere")
        async with cluster.admin() as admin, asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(drained(admin, 3, WANTED, notes.append, cluster.host.clock))
            await cluster.run_until(lambda: "broker 3 still has" in str(notes))
            await admin.undrain_broker(3)
            progress, stands = await waiting
            assert not stands and progress.replicas > 0
            assert not [each for each in (await admin.describe_cluster()).brokers if each.drained]

    cluster.run(taken_back())


def test_a_drain_is_waited_for_until_nothing_is_left(simulated_cluster: SimulatedCluster) -> None:
    cluster = simulated_cluster

    async def handed_over() -> None:
        await cluster.create_topic("everywhere", partitions=6)
        wanted = {**WANTED, "replicas": False}
        async with cluster.admin() as admin:
            progress, stands = await drained(admin, 3, wanted, lambda line: None, cluster.host.clock)
        assert stands and progress.leaderships == 0
        assert 3 not in [cluster.leader("everywhere", number) for number in range(6)]

    cluster.run(handed_over())
