"""A producer lives longer than the topic to which it sends, or than the topic's limits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Message
from confluent_kafka import Producer as ConfluentProducer

from strandline import Admin, Producer, TopicPartition
from strandline.errors import MessageTooLarge, UnknownTopicId, UnknownTopicOrPartition
from strandline.testing import MemoryCluster
from tests.waiting import eventually

WAIT_S_MAX = 20


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=1) as cluster:
        yield cluster


async def made_anew(cluster: MemoryCluster, admin: Admin, partitions: int = 1) -> None:
    await admin.delete_topics(["t"])
    await cluster.create_topic("t", partitions)


async def values(cluster: MemoryCluster, count: int, partitions: int = 1) -> list[bytes | None]:
    async with cluster.consumer(offset_reset="earliest") as consumer, asyncio.timeout(WAIT_S_MAX):
        consumer.assign([TopicPartition("t", partition) for partition in range(partitions)])
        return [(await consumer.getone()).value for _ in range(count)]


async def sent(
    producer: Producer, values: list[bytes], *, key: bytes | None = None, partition: int | None = None
) -> None:
    futures = [await producer.send("t", value, key, partition=partition) for value in values]
    async with asyncio.timeout(WAIT_S_MAX):
        for future in futures:
            await future


@pytest.mark.parametrize("settings", [{}, {"enable_idempotence": False}, {"gapless": True}])
async def test_a_producer_goes_on_with_a_topic_that_was_made_anew(
    cluster: MemoryCluster, settings: dict[str, bool]
) -> None:
    """KIP-516: nothing of the new topic is missing."""
    await cluster.create_topic("t")
    async with cluster.admin() as admin, cluster.producer(**settings) as producer:
        await sent(producer, [b"old"] * 20)
        await made_anew(cluster, admin)
        new = [b"new %d" % number for number in range(50)]
        await sent(producer, new)
    assert await values(cluster, 50) == new


async def test_records_of_a_partition_that_is_gone_fail_by_name_and_others_go_on(
    cluster: MemoryCluster,
) -> None:
    await cluster.create_topic("t", 3)
    async with cluster.admin() as admin, cluster.producer() as producer:
        await sent(producer, [b"old"], partition=2)
        await made_anew(cluster, admin, 2)
        await sent(producer, [b"new"], partition=1)
        with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 1"):
            await producer.send_and_wait("t", b"gone", partition=2)
        for number in range(20):
            await sent(producer, [b"kept"], key=b"%d" % number)
    assert len(await values(cluster, 21, 2)) == 21


async def test_a_partition_that_is_gone_is_not_taken_for_a_new_one(cluster: MemoryCluster) -> None:
    """Its record is the first to meet the new topic, and its leader is still sought when it fails. With a
    partition too many, keys would go elsewhere than those of other producers."""
    await cluster.create_topic("t", 3)
    async with cluster.admin() as admin, cluster.producer() as producer:
        await sent(producer, [b"old"], partition=2)
        await made_anew(cluster, admin, 2)
        with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 1"):
            await producer.send_and_wait("t", b"gone", partition=2)
        async with asyncio.timeout(WAIT_S_MAX):
            with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 1"):
                await producer.send_and_wait("t", b"gone", partition=2)
            mine = [(await producer.send_and_wait("t", b"1", b"%d" % key)).partition for key in range(20)]
        async with cluster.producer() as fresh:
            its = [(await fresh.send_and_wait("t", b"2", b"%d" % key)).partition for key in range(20)]
        assert its == mine


async def test_an_offset_of_the_old_topic_is_not_expected_of_the_new_one(cluster: MemoryCluster) -> None:
    """Both logs end at the same offset: only the id tells them apart."""
    await cluster.create_topic("t")
    async with cluster.admin() as admin, cluster.producer() as producer, cluster.producer() as other:
        await sent(producer, [b"old"])
        await made_anew(cluster, admin)
        await sent(other, [b"new"])
        record = (None, b"of the old", (), 0)
        with pytest.raises(UnknownTopicId, match="made anew"):
            await (await producer.send_records("t", 0, [record], expected_offset=1))


@pytest.mark.parametrize("compression", ["none", "gzip"])
async def test_batches_that_became_too_large_are_divided(cluster: MemoryCluster, compression: str) -> None:
    """KAFKA-3995: the topic's limit was lowered while the producer lives."""
    await cluster.create_topic("t")
    async with cluster.admin() as admin, cluster.producer(compression=compression) as producer:
        await sent(producer, [b"before"])
        await admin.alter_topic("t", set={"max.message.bytes": "10000"})
        new = [Random(number).randbytes(500) for number in range(200)]
        await sent(producer, new)
        bulk = [Random(number).randbytes(500) for number in range(200, 300)]
        async with asyncio.timeout(WAIT_S_MAX):
            written = await (await producer.send_many("t", bulk))
        assert sum(batch.record_count for batch in written.batches) == 100
        with pytest.raises(MessageTooLarge):
            await producer.send_and_wait("t", Random(0).randbytes(20_000))
    assert await values(cluster, 301) == [b"before", *new, *bulk]


async def test_a_limit_that_was_raised_is_learned_when_a_record_needs_it(cluster: MemoryCluster) -> None:
    await cluster.create_topic("t", config={"max.message.bytes": "10000"})
    async with cluster.admin() as admin, cluster.producer() as producer:
        with pytest.raises(MessageTooLarge, match="10000"):
            await producer.send_and_wait("t", Random(0).randbytes(20_000))
        await admin.alter_topic("t", set={"max.message.bytes": "100000"})

        async def taken() -> bool:
            """Once the producer asks for the limit again: it does so once a second at most."""
            try:
                await sent(producer, [bytes(20_000)])
            except MessageTooLarge:
                return False
            return True

        await eventually(taken)
        await (await producer.send_many("t", [bytes(30_000)]))


async def test_a_kafka_producer_goes_on_with_a_topic_that_was_made_anew() -> None:
    """KIP-360: aiokafka's keeps its id and its sequences."""
    async with MemoryCluster(brokers=1, kafka=True) as cluster:
        await cluster.create_topic("t")
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.kafka_bootstrap, enable_idempotence=True, retry_backoff_ms=50
        )
        await producer.start()
        try:
            async with asyncio.timeout(WAIT_S_MAX), cluster.admin() as admin:
                for _ in range(5):
                    await producer.send_and_wait("t", b"old", partition=0)
                await made_anew(cluster, admin)
                for number in range(5):
                    await producer.send_and_wait("t", b"new %d" % number, partition=0)
        finally:
            await producer.stop()
        assert await values(cluster, 5) == [b"new %d" % number for number in range(5)]


Send = Callable[[bytes], Awaitable[None]]


@contextlib.asynccontextmanager
async def sending_by_aiokafka(cluster: MemoryCluster) -> AsyncIterator[Send]:
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.kafka_bootstrap, enable_idempotence=True, retry_backoff_ms=20
    )

    async def send(value: bytes) -> None:
        async with asyncio.timeout(WAIT_S_MAX):
            await producer.send_and_wait("t", value)

    await producer.start()
    try:
        yield send
    finally:
        await producer.stop()


@contextlib.asynccontextmanager
async def sending_by_confluent(cluster: MemoryCluster) -> AsyncIterator[Send]:
    producer = ConfluentProducer(
        {
            "bootstrap.servers": cluster.kafka_bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "retry.backoff.ms": 20,
        }
    )
    errors: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        errors.append(error)

    def flushed(value: bytes) -> None:
        producer.produce("t", value, on_delivery=delivered)
        producer.flush(WAIT_S_MAX)
        assert [errors.pop()] == [None] and not errors

    async def send(value: bytes) -> None:
        await asyncio.to_thread(flushed, value)

    yield send


@pytest.mark.parametrize("sending", [sending_by_aiokafka, sending_by_confluent])
async def test_what_a_broker_refused_of_one_topic_does_not_count_for_the_next(
    sending: Callable[[MemoryCluster], contextlib.AbstractAsyncContextManager[Send]],
) -> None:
    """KIP-360: the leaders of the topics differ, so each is asked for a topic that it does not lead, and for
    one that it does, by a producer whose sequences go on."""
    async with MemoryCluster(brokers=3, kafka=True) as cluster, cluster.admin() as admin:
        await cluster.create_topic("t")
        async with sending(cluster) as send:
            for number in range(8):
                await send(b"%d" % number)
                assert await values(cluster, 1) == [b"%d" % number]
                await made_anew(cluster, admin)
