"""Slow applications on virtual time: heartbeats continue until max_poll_interval_ms is up."""

from __future__ import annotations

import asyncio

import pytest

from strandline import ConsumerRecord, TopicPartition
from strandline.testing import SimulatedCluster
from tests.integration.groups.support.group_members import (
    GROUP_SETTINGS,
    SETTLE_S,
    Members,
    RebalanceLog,
    new_group,
    new_topic,
    write,
)
from tests.integration.groups.support.overdue import leaves_and_comes_back
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

pytestmark = pytest.mark.strandline(seed=1, broker_settings={"group_initial_rebalance_delay_ms": 0})

SESSION_MS = 1_000


@on_virtual_time
async def test_a_listener_may_take_longer_than_a_session(cluster: SimulatedCluster) -> None:
    """(G8) heartbeats continue while a member prepares to join again."""
    topic = await new_topic(cluster, 2)
    settings = {"session_timeout_ms": SESSION_MS, "rebalance_protocol": "eager"}
    async with Members(cluster, [topic], **settings) as members:
        slow = await members.join()
        await members.settled(slow, partitions=2)

        async def slowly(kind: str, partitions: set[TopicPartition]) -> None:
            if kind == "revoked":
                await cluster.host.clock.sleep(2.5 * SESSION_MS / 1000)

        slow.heard.before = slowly
        other = await members.join()
        await members.settled(slow, other, partitions=2)
        assert slow.heard.kinds() == ["assigned", "revoked", "assigned"]
        assert slow.errors == []


@on_virtual_time
async def test_a_consumer_that_never_asks_for_records_leaves_and_comes_back(
    cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """max_poll_interval_ms: others take over, the log names the setting, the next get call joins again. This
    host has one thread, where heartbeats have a task; a test in real time has it with several."""
    await leaves_and_comes_back(cluster, caplog)


@on_virtual_time
async def test_a_consumer_that_waits_for_records_is_not_slow(cluster: SimulatedCluster) -> None:
    """A get call that waits, however long, is no reason to leave: there is nothing to be handed out."""
    topic = await new_topic(cluster, 1)
    settings = {**GROUP_SETTINGS, "max_poll_interval_ms": 500}
    heard = RebalanceLog()
    async with cluster.consumer(group_id=new_group(), **settings) as consumer:
        consumer.subscribe([topic], listener=heard)
        assert await consumer.getmany(timeout_ms=2_500) == {}
        assert heard.kinds() == ["assigned"]
        assert consumer.group_metadata().generation == 1


@on_virtual_time
async def test_a_drain_has_the_same_bound_as_the_others_wait(cluster: SimulatedCluster) -> None:
    """A member that still works on a revoked partition when max_poll_interval_ms is up loses it."""
    topic = await new_topic(cluster, 2)
    async with Members(cluster, [topic], rebalance_protocol="eager") as members:
        slow = await members.join(max_poll_interval_ms=1_500)
        await members.settled(slow, partitions=2)
        at_work, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(record: ConsumerRecord) -> None:
            at_work.set()
            await go_on.wait()

        slow.handle = slowly
        await write(cluster, topic, 0)
        await eventually(at_work.is_set, what="it is at work")
        other = await members.join()
        await eventually(
            lambda: len(other.owned) == 2, deadline_s=SETTLE_S, what="the other gets everything in the end"
        )
        assert "lost" in slow.heard.kinds() or "revoked" in slow.heard.kinds()
        await eventually(lambda: other.records, what="the record that was in hand is read again")
        go_on.set()
