"""Slow applications on virtual time: heartbeats continue until max_poll_interval_ms is up."""

from __future__ import annotations

import asyncio
import logging

import pytest

from strandline import ConsumerRecord, TopicPartition
from strandline.testing import SimulatedCluster
from tests.integration.groups.support.group_members import (
    GROUP_SETTINGS,
    Members,
    RebalanceLog,
    new_group,
    new_topic,
    write,
)
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
    """max_poll_interval_ms: others take over, the log names the setting, the next get call joins again."""
    topic = await new_topic(cluster, 2)
    async with Members(cluster, [topic], rebalance_protocol="cooperative") as members:
        slow = await members.join(max_poll_interval_ms=1_000, session_timeout_ms=60_000)
        await members.settled(slow, partitions=2)
        go_on = asyncio.Event()

        async def slowly(record: ConsumerRecord) -> None:
            await go_on.wait()

        slow.handle = slowly
        with caplog.at_level(logging.WARNING, "consumer"):
            await write(cluster, topic, 0)
            await eventually(
                lambda: slow.heard.kinds() == ["assigned", "lost"], what="it has lost everything"
            )
        assert "max_poll_interval_ms=1000" in caplog.text and "extend_processing" in caplog.text
        other = await members.join()
        await members.settled(other, partitions=2)
        await eventually(lambda: other.records, what="the other reads what was not done")
        assert slow.generation == -1
        slow.handle = None
        go_on.set()
        await members.settled(slow, other, partitions=2)
        assert slow.heard.kinds() == ["assigned", "lost", "assigned"]
        assert slow.errors == []


@on_virtual_time
async def test_more_time_can_be_asked_for(cluster: SimulatedCluster) -> None:
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0)
    heard = RebalanceLog()
    settings = {**GROUP_SETTINGS, "max_poll_interval_ms": 700}
    async with cluster.consumer(group_id=new_group(), **settings) as consumer:
        consumer.subscribe([topic], listener=heard)
        _ = await consumer.getone()
        before = consumer.group_metadata()
        consumer.extend_processing(60)
        await cluster.host.clock.sleep(1.5)
        assert await consumer.getmany() == {}
        assert consumer.group_metadata() == before
        await write(cluster, topic, 0)
        assert (await consumer.getone()).offset == 1
        assert heard.kinds() == ["assigned"]
