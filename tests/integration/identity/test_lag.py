"""What a group's offsets mean to who looks at it, and to who resets them, while its topic changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from strandline import TopicPartition
from strandline.client.resets.plan import Chosen, Shift
from strandline.client.resets.reading import read_plan
from strandline.consumer.described.reading import read_group
from strandline.errors import InvalidRequest, UnknownTopicId
from strandline.testing import MemoryCluster

QUICK = {"group_initial_rebalance_delay_ms": 0}
T0 = TopicPartition("t", 0)
ALL = [Chosen("t", None)]


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    """A topic of 50 records, of which a group has read 10."""
    async with MemoryCluster(brokers=1, kafka=True, broker_settings=QUICK) as cluster:
        await written(cluster, 50)
        async with cluster.admin() as admin:
            await admin.alter_group_offsets("g", {T0: 10})
        yield cluster


async def written(cluster: MemoryCluster, count: int) -> None:
    await cluster.create_topic("t")
    async with cluster.producer() as producer:
        await (await producer.send_many("t", [b"%d" % number for number in range(count)]))


async def made_anew(cluster: MemoryCluster, count: int) -> None:
    async with cluster.admin() as admin:
        await admin.delete_topics(["t"])
    await written(cluster, count)


async def test_records_that_were_deleted_are_no_lag(cluster: MemoryCluster) -> None:
    def delete_below(offset: int) -> None:
        admin = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})
        admin.delete_records([ConfluentPartition("t", 0, offset)])[ConfluentPartition("t", 0)].result(30)

    for start, lag in ((30, 20), (50, 0)):
        await asyncio.to_thread(delete_below, start)
        async with cluster.admin() as admin:
            (seen,) = (await read_group(admin, "g")).partitions
        assert (seen.start, seen.end, seen.lag, seen.note) == (start, 50, lag, "before the start")


async def test_a_commit_beyond_the_end_is_noted(cluster: MemoryCluster) -> None:
    async with cluster.admin() as admin:
        await admin.alter_group_offsets("g", {T0: 100})
        (seen,) = (await read_group(admin, "g")).partitions
    assert (seen.committed, seen.end, seen.lag, seen.note) == (100, 50, 0, "beyond the end")


async def test_a_topic_that_was_made_anew_has_no_lag_of_the_old_one(cluster: MemoryCluster) -> None:
    """CORRECTNESS G18"""
    await made_anew(cluster, 20)
    async with cluster.admin() as admin:
        view = await read_group(admin, "g")
        assert not view.partitions and view.lag is None
        with pytest.raises(InvalidRequest, match="nothing is committed for t-0"):
            await read_plan(admin, "g", ALL, Shift(1))
        (reset,) = await read_plan(admin, "g", ALL, "latest")
        assert (reset.committed, reset.new, reset.change) == (None, 20, None)


async def test_a_plan_is_not_carried_out_on_another_topic(cluster: MemoryCluster) -> None:
    """CORRECTNESS G18: between the two, an operator may look at it for minutes."""
    async with cluster.admin() as admin:
        (reset,) = await read_plan(admin, "g", ALL, Shift(5))
        await made_anew(cluster, 50)
        with pytest.raises(UnknownTopicId, match="t-0"):
            await admin.alter_group_offsets("g", {reset.name: reset.position})
        assert not await admin.group_offsets("g")
        (again,) = await read_plan(admin, "g", ALL, 15)
        await admin.alter_group_offsets("g", {again.name: again.position})
        assert [each.offset for each in (await admin.group_offsets("g")).values()] == [15]
