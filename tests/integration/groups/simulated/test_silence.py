"""Who waits for others says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from strandline.client.waits import WAITS_LOGGER
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.testing import SimulatedCluster
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

pytestmark = pytest.mark.strandline(seed=1)
SESSION_MS = 30_000
WAIT = "groups wait for in-sync replicas before they are read"


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


@on_virtual_time
async def test_a_producer_whose_records_are_refused_says_why(
    simulated_cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The leader is there, and refuses each batch while too few replicas are in sync."""
    cluster = simulated_cluster
    await cluster.create_topic("tides", partitions=3)
    async with cluster.producer(delivery_timeout_ms=15_000) as producer:
        for partition in range(3):
            await producer.send_and_wait("tides", b"before", partition=partition)
        for broker in (1, 2):
            cluster.kill(broker)
        futures = [await producer.send("tides", b"more", partition=partition) for partition in range(3)]
        for future in futures:
            with pytest.raises(StrandlineError):
                await future
    said = [each.getMessage() for each in caplog.records if each.name == WAITS_LOGGER]
    refused = [each for each in said if "takes no records, for" in each]
    assert refused and "min.insync.replicas is 2" in refused[0], said
    assert len(refused) < 3, "one stands for the others"


def test_a_coordinator_that_cannot_read_its_groups_says_so() -> None:
    """The other replicas died at once, and it has records of which it cannot know if they are committed: that
    takes min.insync.replicas. Members hear that it loads."""

    def of(lines: list[Any], event: str) -> list[Any]:
        return [line for line in lines if line["event"] == event]

    with capture_logs() as lines, SimulatedCluster(seed=1) as cluster:

        async def alone() -> None:
            await cluster.create_topic("tides")
            async with cluster.consumer(group_id="watch") as consumer:
                consumer.subscribe(["tides"])
                await eventually(consumer.assignment, deadline_s=60, what="the group is there")
            lines.clear()
            for broker in (1, 2):
                cluster.kill(broker)

            def is_elected() -> bool:
                return any(
                    line["partition"].startswith("__consumer_offsets") for line in of(lines, "elected")
                )

            await cluster.run_until(is_elected, timeout_s=60)
            await cluster.run_until(lambda: bool(of(lines, WAIT)), timeout_s=60)

        cluster.run(alone())
    first = of(lines, WAIT)[0]
    assert (first["seconds"], first["isr"], first["min_insync"]) == (3, [3], 2)


@on_virtual_time
async def test_a_coordinator_that_cannot_write_is_waited_for_aloud(
    simulated_cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It answers, and is found again after each refusal: the wait is over once a commit or a rebalance has
    succeeded, and the lines name the last reason."""

    def said(group: str) -> list[str]:
        lines = [each.getMessage() for each in caplog.records if each.name == WAITS_LOGGER]
        return [line for line in lines if line.startswith(f"group {group}: ")]

    cluster = simulated_cluster
    await cluster.create_topic("tides", partitions=2)
    async with cluster.consumer(group_id="watch") as consumer, cluster.admin() as admin:
        consumer.subscribe(["tides"])
        await eventually(consumer.assignment, deadline_s=60, what="the group is there")
        coordinator = (await admin.describe_group("watch")).coordinator.id
        others = sorted({1, 2, 3} - {coordinator})
        for broker in others:
            cluster.kill(broker)
        offsets = {name: 0 for name in consumer.assignment()}
        with pytest.raises(StrandlineError, match="in-sync"):
            await consumer.commit(offsets)
        (line,) = said("watch")
        assert "offsets are not committed, for " in line and "in-sync" in line
        async with cluster.consumer(group_id="late") as late:
            late.subscribe(["tides"])
            await eventually(lambda: said("late"), deadline_s=60, what="the newcomer says it")
            (line,) = said("late")
            assert "no rebalance has succeeded, for " in line and "in-sync" in line
            for broker in others:
                cluster.start(broker)
            await eventually(lambda: len(late.assignment()) == 2, deadline_s=120, what="it has its share")
        await consumer.commit(offsets)
