"""Real Kafka clients and a cluster in memory: its brokers have ports on this machine."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from confluent_kafka import Producer as ConfluentProducer

from strandline import TopicPartition
from strandline.errors import SettingsError
from strandline.testing import MemoryCluster, NotPossible

LARGE = 800_000
"""Bytes: more than the sockets of both worlds hold."""


async def produced(cluster: MemoryCluster, values: list[bytes]) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.kafka_bootstrap, enable_idempotence=True, retry_backoff_ms=50
    )
    await producer.start()
    try:
        for value in values:
            await producer.send_and_wait("orders", value, partition=0)
    finally:
        await producer.stop()


async def consumed(cluster: MemoryCluster, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=cluster.kafka_bootstrap, enable_auto_commit=False, retry_backoff_ms=50
    )
    await consumer.start()
    try:
        consumer.assign([KafkaPartition("orders", 0)])
        await consumer.seek_to_beginning()
        async with asyncio.timeout(30):
            return [(await consumer.getone()).value for _ in range(count)]
    finally:
        await consumer.stop()


async def test_a_kafka_client_writes_and_reads_also_after_its_leader_was_killed() -> None:
    async with MemoryCluster(brokers=3, kafka=True) as cluster:
        await cluster.create_topic("orders")
        values = [b"one", b"x" * LARGE, b"two"]
        await produced(cluster, values)
        killed = cluster.leader("orders")
        cluster.kill(killed)
        await produced(cluster, [b"three"])
        assert await consumed(cluster, 4) == [*values, b"three"]
        cluster.start(killed)
        async with cluster.consumer(offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            assert (await anext(consumer)).value == b"one"


async def test_a_kafka_client_in_another_thread_writes() -> None:
    async with MemoryCluster(brokers=2, kafka=True) as cluster:
        await cluster.create_topic("orders")
        producer = ConfluentProducer({"bootstrap.servers": cluster.kafka_bootstrap})
        for number in range(100):
            producer.produce("orders", b"%d" % number)
        assert await asyncio.to_thread(producer.flush, 30) == 0
        assert len(await consumed(cluster, 100)) == 100


async def test_the_ports_close_with_the_cluster_and_there_are_none_without_asking() -> None:
    async with MemoryCluster(brokers=1) as cluster:
        assert cluster.kafka_bootstrap == ""
    async with MemoryCluster(brokers=1, kafka=True) as cluster:
        host, _, port = cluster.kafka_bootstrap.rpartition(":")
        socket.create_connection((host, int(port))).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


async def test_a_second_use_has_ports_of_its_own() -> None:
    cluster = MemoryCluster(brokers=1, kafka=True)
    for _ in range(2):
        async with cluster:
            await cluster.create_topic("orders")
            await produced(cluster, [b"one"])
            assert await consumed(cluster, 1) == [b"one"]
            bootstrap = cluster.kafka_bootstrap
            with pytest.raises(NotPossible, match="runs already"):
                await cluster.__aenter__()
            assert cluster.kafka_bootstrap == bootstrap
        assert cluster.kafka_bootstrap == ""


async def test_a_wrong_value_of_a_setting_leaves_no_port_open() -> None:
    before = os.listdir("/dev/fd")
    with pytest.raises(SettingsError, match="keep_in_sync_ms"):
        async with MemoryCluster(brokers=1, kafka=True, broker_settings={"keep_in_sync_ms": "soon"}):
            pytest.fail("it does not start")
    assert os.listdir("/dev/fd") == before
