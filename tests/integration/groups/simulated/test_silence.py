"""A member that waits for others says so."""

from __future__ import annotations

import asyncio

import pytest

from strandline.client.waits import WAITS_LOGGER
from strandline.host import Host
from strandline.testing import SimulatedCluster
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

pytestmark = pytest.mark.strandline(seed=1)
SESSION_MS = 30_000


@on_virtual_time
async def test_a_join_that_a_vanished_member_holds_up_is_logged(
    simulated_cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The coordinator waits for a member that is gone until its session ends; the newcomer gets nothing."""
    cluster, read = simulated_cluster, asyncio.Event()
    await cluster.create_topic("tides", partitions=2)

    async def first(host: Host) -> None:
        del host
        async with cluster.consumer(group_id="watch", session_timeout_ms=SESSION_MS) as consumer:
            consumer.subscribe(["tides"])
            while True:
                _ = await consumer.getmany(timeout_ms=100)
                if consumer.assignment():
                    read.set()

    member = cluster.application("first", first)
    await cluster.run_until(read.is_set, timeout_s=60)
    member.kill()
    async with cluster.consumer(group_id="watch", session_timeout_ms=SESSION_MS) as consumer:
        assert consumer.metrics()["rebalance-under-way-seconds"] == 0
        consumer.subscribe(["tides"])
        await eventually(lambda: consumer.metrics()["rebalance-under-way-seconds"] > 8, deadline_s=60)
        await eventually(lambda: len(consumer.assignment()) == 2, deadline_s=60, what="the session has ended")
        await eventually(lambda: consumer.metrics()["rebalance-under-way-seconds"] == 0)
    said = [each.getMessage() for each in caplog.records if each.name == WAITS_LOGGER]
    assert said == [
        "group watch: JoinGroup is not answered, as other members have not come yet, for 5 s by now"
    ]
