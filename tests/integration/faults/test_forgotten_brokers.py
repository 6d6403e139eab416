"""A broker that is emptied, stopped and forgotten under load, and one that returns after that."""

from __future__ import annotations

import pytest

from strandline import Admin
from strandline.errors import InvalidRequest
from strandline.vocabulary.admin import NewTopic
from strandline.vocabulary.state_changes import Command, RequestState, StateChangeEvent
from tests.integration.support.harness import FAULT_SETTINGS
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually


@pytest.mark.strandline(
    brokers=4,
    broker_settings=FAULT_SETTINGS,
    controller_settings={"reconcile_ms": 500, "mend_after_ms": 60_000},
)
@pytest.mark.timeout(200)
@on_virtual_time
async def test_a_forgotten_broker_leaves_nothing_behind_and_returns_as_a_new_one(
    simulated: SimulatedHarness,
) -> None:
    """What it had not done yet has failed, with a reason (CORRECTNESS Q4). Its old replicas are no one's, and
    it removes them; clients of the others see nothing of all that."""
    cluster = simulated.cluster
    topic = await simulated.create_topic([(1, 2, 3), (2, 3, 1)])
    async with Admin(cluster.bootstrap, host=cluster.host) as admin, workload(topic) as load:
        await admin.create_topics([NewTopic("left", 0, assignments=[(4, 1)])])
        await load.progress()
        await cluster.kill_broker(4)
        with pytest.raises(InvalidRequest, match=r"broker 4 is (alive|has replicas)"):
            await admin.forget_broker(4)

        async def gone() -> bool:
            return 4 not in await simulated.live()

        await eventually(gone, what="the session of broker 4 has ended")
        with pytest.raises(InvalidRequest, match=r"has replicas, .*: .*left-0"):
            await admin.forget_broker(4)
        await admin.drain_broker(4, replicas=True)

        async def emptied() -> bool:
            return (await admin.check_broker(4)).replicas == 0

        await eventually(emptied, deadline_s=60, what="others have the replicas of broker 4")
        forgotten = await admin.forget_broker(4)
        assert forgotten.was_known
        assert forgotten.requests >= 1, "it was asked to delete its replicas"
        assert not (await admin.forget_broker(4)).was_known
        assert [each.endpoint.id for each in (await admin.describe_cluster()).brokers] == [1, 2, 3]

        async def recorded() -> list[StateChangeEvent]:
            return [
                event
                async for event in admin.state_changes(brokers=[4])
                if event.state is RequestState.FAILED and event.command is Command.DELETE_REPLICA
            ]

        failed = await eventually(recorded, deadline_s=60, what="the end of its requests is recorded")
        assert all("broker 4 was forgotten, for User:ANONYMOUS" in event.reason for event in failed)
        await load.progress()
        await cluster.start_broker(4)
        await admin.create_topics([NewTopic("again", 0, assignments=[(4, 1)])])
        (back,) = [each for each in (await admin.describe_cluster()).brokers if each.endpoint.id == 4]
        assert (back.alive, back.drained) == (True, False)
        await eventually(
            lambda: not simulated.folders(4, "left-"), deadline_s=60, what="its old replica is removed"
        )
        await load.judge()
