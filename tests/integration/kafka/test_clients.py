"""aiokafka, as it is, writes to and reads from a cluster of three brokers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import InvalidTimestampError, MessageSizeTooLargeError

from strandline import Admin, Consumer, Producer, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.config.limits import MIB
from strandline.errors import InvalidTimestamp
from strandline.local.cluster import LocalCluster
from strandline.records import Codec, split
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS
from tests.waiting import eventually

PARTITIONS = 3
TEN_MIB = 10 * MIB
READ_S_MAX = 30.0
CODECS = (None, "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=3, broker_settings=FAULT_SETTINGS, kafka=True)


async def create(cluster: LocalCluster, name: str, partitions: int = PARTITIONS) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(
            name, partitions=partitions, replication_factor=3, config={"min.insync.replicas": "2"}
        )


async def read_all(cluster: LocalCluster, topic: str, partitions: int = PARTITIONS) -> list[Any]:
    """Every record of the topic, by aiokafka, from the start to the end of each partition."""
    wanted = [KafkaPartition(topic, number) for number in range(partitions)]
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.kafka_bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign(wanted)
        await consumer.seek_to_beginning(*wanted)
        ends = await consumer.end_offsets(wanted)
        found: list[Any] = []
        async with asyncio.timeout(READ_S_MAX):
            while len(found) < sum(ends.values()):
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found += records
        return found
    finally:
        await consumer.stop()


async def test_the_leader_gives_the_times_or_refuses_those_of_the_future(cluster: LocalCluster) -> None:
    """LogAppendTime, and `message.timestamp.after.max.ms`, to clients of both kinds."""
    before_ms, far_ms = SystemClock().wall_ms(), 4_102_444_800_000
    async with Admin(cluster.bootstrap) as admin:
        config = {"min.insync.replicas": "2", "message.timestamp.type": "LogAppendTime"}
        await admin.create_topic("appended", partitions=1, replication_factor=3, config=config)
    await create(cluster, "created", 1)
    async with AIOKafkaProducer(bootstrap_servers=cluster.kafka_bootstrap) as producer:
        metadata = await producer.send_and_wait("appended", b"1", timestamp_ms=far_ms)
        assert before_ms <= metadata.timestamp < far_ms and metadata.timestamp_type == 1
        with pytest.raises(InvalidTimestampError):
            await producer.send_and_wait("created", b"1", timestamp_ms=far_ms)
    async with Producer(cluster.bootstrap) as own:
        await own.send_and_wait("appended", b"2", timestamp_ms=5)
        with pytest.raises(InvalidTimestamp, match=r"message\.timestamp\.after\.max\.ms"):
            await own.send_and_wait("created", b"2", timestamp_ms=far_ms)
        await own.send_and_wait("created", b"3", timestamp_ms=5)
    read = await read_all(cluster, "appended", 1)
    assert [each.value for each in read] == [b"1", b"2"]
    assert all(before_ms <= each.timestamp < far_ms and each.timestamp_type == 1 for each in read)
    assert [(each.value, each.timestamp) for each in await read_all(cluster, "created", 1)] == [(b"3", 5)]
    async with Consumer(cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("appended", 0)])
        assert [(await consumer.getone()).timestamp for _ in read] == [each.timestamp for each in read]


async def test_a_batch_of_ten_mib_is_replicated_and_read_by_every_consumer(cluster: LocalCluster) -> None:
    """A common size of `max.message.bytes`, and more than `kafka_fetch_bytes_max`."""
    async with Admin(cluster.bootstrap) as admin:
        config = {"min.insync.replicas": "3", "max.message.bytes": str(TEN_MIB)}
        await admin.create_topic("swell", partitions=1, replication_factor=3, config=config)
    values = [bytes([number]) * (TEN_MIB - 1_000) for number in range(3)]
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.kafka_bootstrap, max_request_size=TEN_MIB, acks="all"
    ) as producer:
        for value in values:
            await producer.send_and_wait("swell", value)
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait("swell", bytes(TEN_MIB - 50))
    assert [record.value for record in await read_all(cluster, "swell", 1)] == values
    async with Consumer(cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("swell", 0)])
        assert [(await consumer.getone()).value for _ in values] == values


async def test_batches_of_every_codec_are_stored_as_they_came(cluster: LocalCluster) -> None:
    """What a Kafka client wrote, another one and strandline's consumer read, and the other way round."""
    await create(cluster, "tides")
    sent = []
    for codec in CODECS:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.kafka_bootstrap, compression_type=codec, enable_idempotence=True
        )
        async with producer:
            values = [f"{codec}-{number}".encode() * 20 for number in range(50)]
            acknowledgements = [
                await producer.send("tides", value, key=value, headers=[("h", value)]) for value in values
            ]
            await asyncio.wait(acknowledgements)
            sent += values
    async with Producer(cluster.bootstrap) as own:
        await own.send_and_wait("tides", b"of strandline", key=b"k")
        sent.append(b"of strandline")
    read = await read_all(cluster, "tides")
    assert Counter(record.value for record in read) == Counter(sent)
    assert all(record.headers == (("h", record.value),) for record in read if record.headers)
    async with Consumer(cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("tides", number) for number in range(PARTITIONS)])
        own_read = Counter([(await consumer.getone()).value for _ in sent])
    assert own_read == Counter(sent)


@pytest.mark.parametrize("codec", ["uncompressed", *filter(None, CODECS)])
async def test_batches_of_every_codec_are_stored_in_the_topics(cluster: LocalCluster, codec: str) -> None:
    """`compression.type`: batches in flight of one producer keep their order."""
    topic = f"dunes-{codec}"
    async with Admin(cluster.bootstrap) as admin:
        config = {"min.insync.replicas": "2", "compression.type": codec}
        await admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3, config=config)
    sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for given in CODECS:
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.kafka_bootstrap,
            compression_type=given,
            enable_idempotence=True,
            max_batch_size=4_000,
        ) as producer:
            waiting = []
            for number in range(300):
                value, partition = f"{given}-{number}".encode() * 30, number % PARTITIONS
                waiting.append(await producer.send(topic, value, partition=partition))
                sent[partition].append(value)
            await asyncio.wait(waiting)
    async with Producer(cluster.bootstrap) as own:
        for partition in range(PARTITIONS):
            value = b"of strandline" * 100
            await own.send_and_wait(topic, value, partition=partition)
            sent[partition].append(value)
    read: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for record in await read_all(cluster, topic):
        read[record.partition].append(record.value)
    assert read == sent
    wanted = Codec.NONE if codec == "uncompressed" else Codec.named(codec)
    logs = [path for path in cluster.directory.rglob("*.log") if path.parent.name.startswith(topic)]
    assert {header.codec for path in logs for header in split(path.read_bytes())} == {wanted}


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_acknowledgements_of_each_kind(cluster: LocalCluster, acks: int | str) -> None:
    topic = f"acks-{acks}"
    await create(cluster, topic, 1)
    async with AIOKafkaProducer(bootstrap_servers=cluster.kafka_bootstrap, acks=acks) as producer:
        for number in range(20):
            await producer.send_and_wait(topic, str(number).encode())
        await producer.send_and_wait(topic, b"last")
    if acks != "all":  # the last batches may be on their way, or not replicated yet
        async with AIOKafkaProducer(bootstrap_servers=cluster.kafka_bootstrap, acks="all") as producer:
            await producer.send_and_wait(topic, b"acknowledged")
    values = [record.value for record in await read_all(cluster, topic, 1) if record.value != b"acknowledged"]
    assert values == [*(str(number).encode() for number in range(20)), b"last"]


@pytest.mark.timeout(120)
async def test_a_killed_leader_costs_an_idempotent_producer_nothing(cluster: LocalCluster) -> None:
    """CORRECTNESS H6, T12: under acks=all no acknowledged record is lost and none is there twice, over the
    death of each leader of the topic in turn."""
    await create(cluster, "storm")
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.kafka_bootstrap,
        enable_idempotence=True,
        request_timeout_ms=20_000,
        retry_backoff_ms=50,
        metadata_max_age_ms=1_000,
    )
    acknowledged: list[int] = []
    stop = asyncio.Event()

    async def load(first: int, step: int) -> None:
        number = first
        while not stop.is_set():
            await producer.send_and_wait("storm", str(number).encode(), partition=number % PARTITIONS)
            acknowledged.append(number)
            number += step

    async def acknowledge(count: int) -> None:
        wanted = len(acknowledged) + count
        await eventually(lambda: len(acknowledged) >= wanted, deadline_s=READ_S_MAX)

    async with producer, asyncio.TaskGroup() as tasks:
        for first in range(4):
            tasks.create_task(load(first, 4))
        await acknowledge(50)
        for broker in (await leaders(cluster, "storm"))[:2]:
            await cluster.kill_broker(broker)
            await acknowledge(50)
            await cluster.start_broker(broker)
        stop.set()
    read = Counter(int(record.value) for record in await read_all(cluster, "storm"))
    assert not set(acknowledged) - set(read), "an acknowledged record is lost"
    assert not [number for number, count in read.items() if count > 1], "a record is there twice"


async def leaders(cluster: LocalCluster, topic: str) -> Sequence[int]:
    """The brokers that lead partitions of the topic."""
    async with Admin(cluster.bootstrap) as admin:
        (described,) = await admin.describe_topics([topic])
    return list(dict.fromkeys(partition.leader for partition in described.partitions))
