"""A group lives longer than the topic that it reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer as ConfluentConsumer

from strandline import TopicPartition
from strandline.errors import StrandlineError, UnknownLeaderEpoch, UnknownTopicId
from strandline.ids import TopicId
from strandline.testing import MemoryCluster
from strandline.vocabulary.groups import CommittedOffset
from strandline.vocabulary.metadata import TopicMetadata
from tests.integration.groups.support.group_rpcs import GroupRpcs, Member

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


async def test_a_commit_without_an_id_is_of_the_topic_as_it_is_now(cluster: MemoryCluster) -> None:
    """CORRECTNESS G18: not as the coordinator knew it at the commit before. Else the new one would be
    lost."""
    name = TopicPartition("t", 0)
    await written(cluster, 1, 20)
    async with cluster.admin() as admin:
        await admin.alter_group_offsets("g", {name: 15})
        for offset in range(1, 6):
            await made_anew(cluster)
            await written(cluster, 1, 20)
            await admin.alter_group_offsets("g", {name: offset})
            (kept,) = (await admin.group_offsets("g")).values()
            assert (kept.offset, kept.topic_id) == (offset, await topic_id(cluster))


async def test_a_commit_of_a_topic_that_is_gone_is_refused_at_once(cluster: MemoryCluster) -> None:
    """CORRECTNESS G18: its id, or the epoch of its records, says what it is of."""
    await written(cluster, 1, 20)
    old, epoch = await topic_id(cluster), await leader_epoch(cluster)
    await made_anew(cluster)
    new = await topic_id(cluster)
    for asked, error in (
        (CommittedOffset(20, topic_id=old), UnknownTopicId),
        (CommittedOffset(20, topic_id=TopicId("e" * 32)), UnknownTopicId),
        (CommittedOffset(20, epoch), UnknownTopicId),
        (CommittedOffset(20, 1_000_000), UnknownLeaderEpoch),
    ):
        refused = await commit(cluster, asked)
        assert isinstance(refused, error), asked
        assert "t-0" in refused.message
        if error is UnknownTopicId:
            assert new in refused.message
    assert await commit(cluster, CommittedOffset(20, topic_id=new)) is None


async def commit(cluster: MemoryCluster, asked: CommittedOffset) -> StrandlineError | None:
    """The outcome of a commit from outside the group."""
    async with GroupRpcs(cluster) as rpcs:
        member = Member(rpcs, "g")
        await member.find()
        results = await member.commit({TopicPartition("t", 0): asked}, member="", generation=-1)
    return results[TopicPartition("t", 0)]


async def described(cluster: MemoryCluster) -> TopicMetadata:
    async with cluster.admin() as admin:
        (topic,) = (await admin.metadata(["t"])).topics
    return topic


async def topic_id(cluster: MemoryCluster) -> TopicId:
    return (await described(cluster)).topic_id


async def leader_epoch(cluster: MemoryCluster) -> int:
    return (await described(cluster)).partitions[0].leader_epoch
