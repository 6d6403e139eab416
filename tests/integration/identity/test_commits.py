"""A group lives longer than the topic that it reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer as ConfluentConsumer

from strandline.testing import MemoryCluster

WAIT_S_MAX = 30
QUICK = {"group_initial_rebalance_delay_ms": 0}


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=1, kafka=True, broker_settings=QUICK) as cluster:
        await cluster.create_topic("t")
        yield cluster


async def written(cluster: MemoryCluster, first: int, count: int) -> list[bytes]:
    values = [b"%d" % number for number in range(first, first + count)]
    async with cluster.producer() as producer:
        await (await producer.send_many("t", values))
    return values


async def made_anew(cluster: MemoryCluster) -> None:
    async with cluster.admin() as admin:
        await admin.delete_topics(["t"])
    await cluster.create_topic("t")


async def read_by_own(cluster: MemoryCluster, count: int) -> list[bytes | None]:
    async with cluster.consumer(group_id="g", offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        async with asyncio.timeout(WAIT_S_MAX):
            found = [(await consumer.getone()).value for _ in range(count)]
        await consumer.commit()
    return found


async def read_by_aiokafka(cluster: MemoryCluster, count: int) -> list[bytes | None]:
    consumer = AIOKafkaConsumer(
        "t",
        bootstrap_servers=cluster.kafka_bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=50,
    )
    await consumer.start()
    try:
        async with asyncio.timeout(WAIT_S_MAX):
            found = [(await consumer.getone()).value for _ in range(count)]
        await consumer.commit()
    finally:
        await consumer.stop()
    return found


async def read_by_confluent(cluster: MemoryCluster, count: int) -> list[bytes | None]:
    def read() -> list[bytes | None]:
        consumer = ConfluentConsumer(
            {
                "bootstrap.servers": cluster.kafka_bootstrap,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["t"])
        found: list[bytes | None] = []
        while len(found) < count:
            message = consumer.poll(WAIT_S_MAX)
            assert message is not None, f"only {len(found)} of {count} came"
            if message.error() is None:
                found.append(message.value())
        consumer.commit(asynchronous=False)
        consumer.close()
        return found

    return await asyncio.to_thread(read)


@pytest.mark.parametrize("read", [read_by_own, read_by_aiokafka, read_by_confluent])
async def test_commits_of_a_deleted_topic_do_not_count_for_its_successor(
    cluster: MemoryCluster, read: Callable[[MemoryCluster, int], Awaitable[list[bytes | None]]]
) -> None:
    """CORRECTNESS G18: the group has committed 20; it reads the new topic from its first record."""
    old = await written(cluster, 1, 20)
    assert await read(cluster, 20) == old
    await made_anew(cluster)
    new = await written(cluster, 101, 50)
    async with cluster.admin() as admin:
        assert not await admin.group_offsets("g")
    assert await read(cluster, 50) == new
