"""Partitions and topics that appear while a group reads, with `offset_reset=latest`, the default (CORRECTNESS
G21)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from strandline import Admin, Consumer, Producer, TopicPartition
from strandline.host import Host
from strandline.testing import MemoryCluster

WAIT_S_MAX = 30
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
OLD = [b"old %d" % number for number in range(5)]
NEW = [b"new %d" % number for number in range(20)]


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=2, broker_settings={"group_initial_rebalance_delay_ms": 0}) as cluster:
        await cluster.create_topic("t", replication_factor=2)
        yield cluster


@pytest.fixture
async def admin(cluster: MemoryCluster) -> AsyncIterator[Admin]:
    async with cluster.admin() as admin:
        yield admin


@pytest.fixture
async def producer(cluster: MemoryCluster) -> AsyncIterator[Producer]:
    async with cluster.producer() as producer:
        await (await producer.send_many("t", OLD))
        yield producer


async def grow(admin: Admin, producer: Producer) -> None:
    """Records come at once, before any member can know the partition."""
    await admin.alter_topic("t", partitions=2)
    await (await producer.send_many("t", NEW, partition=1))


async def settled(consumer: Consumer, *names: TopicPartition) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not set(names) <= consumer.assignment():
            await consumer.getmany(timeout_ms=10)
        for name in names:
            await consumer.position(name)


async def read(consumer: Consumer, count: int = len(NEW)) -> list[bytes | None]:
    async with asyncio.timeout(WAIT_S_MAX):
        return [(await consumer.getone()).value for _ in range(count)]


async def test_a_new_partition_is_read_from_its_first_record(
    cluster: MemoryCluster, admin: Admin, producer: Producer
) -> None:
    async with cluster.consumer(group_id="g") as consumer:
        consumer.subscribe(["t"])
        await settled(consumer, P0)
        await grow(admin, producer)
        assert await read(consumer) == NEW
        assert consumer.assignment() == {P0, P1}


async def test_a_member_that_crashes_before_it_commits_leaves_the_new_partition_to_others(
    cluster: MemoryCluster, admin: Admin, producer: Producer
) -> None:
    """The first member has the partition when it is killed, and its coordinator with it."""
    seen: set[TopicPartition] = set()

    async def member(host: Host) -> None:
        async with Consumer(
            cluster.bootstrap, group_id="g", host=host, enable_auto_commit=False, session_timeout_ms=1_000
        ) as consumer:
            consumer.subscribe(["t"])
            while True:
                await consumer.getmany(timeout_ms=50, max_records=1)
                seen.update(consumer.assignment())

    async with asyncio.timeout(WAIT_S_MAX):
        application = cluster.application("member", member)
        await cluster.run_until(lambda: P0 in seen)
        await grow(admin, producer)
        await cluster.run_until(lambda: P1 in seen)
        application.kill()
        coordinator = cluster.coordinator("g")
        cluster.kill(coordinator)
        async with cluster.consumer(group_id="g") as consumer:
            consumer.subscribe(["t"])
            assert await read(consumer) == NEW


async def test_a_partition_that_appears_while_no_member_is_there_is_read_from_its_first_record(
    cluster: MemoryCluster, admin: Admin, producer: Producer
) -> None:
    async with cluster.consumer(group_id="g", enable_auto_commit=False) as consumer:
        consumer.subscribe(["t"])
        await settled(consumer, P0)
    await grow(admin, producer)
    async with cluster.consumer(group_id="g") as consumer:
        consumer.subscribe(["t"])
        assert await read(consumer) == NEW


@pytest.mark.parametrize("instances", [(None, None), ("i", "j")])
async def test_the_member_that_gets_the_new_partition_need_not_be_the_one_that_saw_it(
    cluster: MemoryCluster, admin: Admin, producer: Producer, instances: tuple[str | None, str | None]
) -> None:
    """Two members, dynamic or static ones: the second has read nothing before."""
    async with (
        cluster.consumer(group_id="g", group_instance_id=instances[0]) as first,
        cluster.consumer(group_id="g", group_instance_id=instances[1]) as second,
    ):
        first.subscribe(["t"])
        await settled(first, P0)
        second.subscribe(["t"])
        await grow(admin, producer)
        values: list[bytes | None] = []
        async with asyncio.timeout(WAIT_S_MAX):
            while len(values) < len(NEW):
                for consumer in (first, second):
                    for records in (await consumer.getmany(timeout_ms=10)).values():
                        values += [record.value for record in records]
        assert values == NEW


async def test_a_topic_that_was_subscribed_to_before_it_existed_is_read_from_its_first_record(
    cluster: MemoryCluster, producer: Producer
) -> None:
    async with cluster.consumer(group_id="g") as consumer:
        consumer.subscribe(["t", "later"])
        await settled(consumer, P0)
        await cluster.create_topic("later", replication_factor=2)
        await (await producer.send_many("later", NEW))
        assert await read(consumer) == NEW


async def test_a_topic_that_was_made_anew_while_no_member_was_there_is_read_from_its_first_record(
    cluster: MemoryCluster, admin: Admin, producer: Producer
) -> None:
    async with cluster.consumer(group_id="g", enable_auto_commit=False) as consumer:
        consumer.subscribe(["t"])
        await settled(consumer, P0)
    await admin.delete_topics(["t"])
    await cluster.create_topic("t", replication_factor=2)
    await (await producer.send_many("t", NEW))
    async with cluster.consumer(group_id="g") as consumer:
        consumer.subscribe(["t"])
        assert await read(consumer) == NEW


@pytest.mark.parametrize("again", [True, False])
async def test_a_topic_that_comes_to_match_a_pattern_is_read_from_its_first_record(
    cluster: MemoryCluster, producer: Producer, again: bool
) -> None:
    """Also if the member that subscribed by the pattern has gone before it saw the topic (`again`)."""
    async with cluster.consumer(group_id="g") as consumer:
        consumer.subscribe(pattern="t|later.*")
        await settled(consumer, P0)
        if not again:
            await cluster.create_topic("later", replication_factor=2)
            await (await producer.send_many("later", NEW))
            assert await read(consumer) == NEW
            return
    await cluster.create_topic("later", replication_factor=2)
    await (await producer.send_many("later", NEW))
    async with cluster.consumer(group_id="g") as consumer:
        consumer.subscribe(pattern=re.compile("t|later.*"))
        assert await read(consumer) == NEW


async def test_what_was_there_when_the_group_began_to_read_it_starts_at_its_end(
    cluster: MemoryCluster, admin: Admin, producer: Producer
) -> None:
    """A new group; a topic that another pattern or a later subscription adds; a subscription given up in
    between: `latest` means what it says."""
    await grow(admin, producer)
    await cluster.create_topic("other", replication_factor=2)
    await (await producer.send_many("other", OLD))
    other = TopicPartition("other", 0)
    async with cluster.consumer(group_id="g", enable_auto_commit=False) as consumer:
        consumer.subscribe(["t"])
        await settled(consumer, P0, P1)
        assert [await consumer.position(name) for name in (P0, P1)] == [len(OLD), len(NEW)]
        consumer.subscribe(pattern="t|other")
        await settled(consumer, other)
        assert await consumer.position(other) == len(OLD)
        consumer.subscribe(["t"])
        async with asyncio.timeout(WAIT_S_MAX):
            while other in consumer.assignment():
                await consumer.getmany(timeout_ms=10)
        await admin.alter_topic("other", partitions=2)
        await (await producer.send_many("other", NEW, partition=1))
        consumer.subscribe(["t", "other"])
        await settled(consumer, other, TopicPartition("other", 1))
        assert await consumer.position(TopicPartition("other", 1)) == len(NEW)
