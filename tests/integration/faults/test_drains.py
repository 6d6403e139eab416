"""A drain goes on when its broker dies in the middle of it and comes back in another life (USERS 11)."""

from __future__ import annotations

import pytest

from strandline import Admin
from strandline.config.limits import KIB
from tests.integration.support.harness import FAULT_SETTINGS
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

PARTITIONS = [(1, 2, 3), (1, 3, 2), (2, 3, 1), (3, 2, 1)]
THROTTLE = 64 * KIB


@pytest.mark.strandline(
    brokers=4,
    controllers=2,
    broker_settings={**FAULT_SETTINGS, "reassignment_near_bytes": 0},
    controller_settings={"reassignments_in_flight_max": 1, "reconcile_ms": 500},
)
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("replicas", [False, True], ids=["leaderships", "replicas"])
@on_virtual_time
async def test_a_drain_goes_on_in_the_next_life_of_its_broker(
    simulated: SimulatedHarness, replicas: bool
) -> None:
    """One partition moves at a time, and slowly: the broker is killed after the first has moved, or has begun
    to, and so is the active controller. The drain ends with nothing left there, and nothing is lost."""
    cluster = simulated.cluster
    topic = await simulated.create_topic(PARTITIONS)
    async with Admin(cluster.bootstrap, host=cluster.host) as admin, workload(topic) as load:
        await load.progress()
        throttle = THROTTLE if replicas else 0
        await admin.drain_broker(1, replicas=replicas, throttle_bytes_per_s=throttle)
        if replicas:
            await eventually(admin.list_reassignments, deadline_s=30, what="a replica moves")
        await cluster.kill_broker(1)
        active = await admin.describe_cluster()
        assert active.controller is not None
        await cluster.kill_controller(active.controller.id)
        await load.progress(deadline_s=60)
        await cluster.start_broker(1)
        await cluster.start_controller(active.controller.id, wait_s=None)

        async def drained() -> bool:
            described = (await admin.describe_cluster()).brokers
            assert [each.endpoint.id for each in described if each.drained] == [1], "the drain is over"
            check = await admin.check_broker(1)
            return check.leaderships == 0 and (not replicas or check.replicas == 0)

        await eventually(drained, deadline_s=120, what="broker 1 has nothing left")
        await load.progress()
        for number in range(len(PARTITIONS)):
            assert (await topic.state(number)).leader != 1
        if replicas:
            placed = (await admin.describe_topics([topic.name]))[0].partitions
            topic.assignment = [each.replicas for each in placed]
            assert not any(1 in assigned for assigned in topic.assignment)
        await load.judge()
