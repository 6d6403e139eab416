"""Clients keep to their quotas, on virtual time: over gRPC, and at the Kafka port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from strandline.broker.kafka.wire.fetch import FetchRequest, PartitionPosition
from strandline.broker.kafka.wire.produce import PartitionRecords, ProduceRequest
from strandline.broker.kafka.wire.topics import OfTopic, each_partition
from strandline.ids import ACKS_ALL, TopicPartition
from strandline.records import iterate, pack
from strandline.security.quotas.model import DEFAULT, Quota, QuotaAlteration, QuotaEntity
from strandline.simulation.cluster import KAFKA_PORT
from strandline.simulation.kafka.connection import KafkaConnection, connected
from strandline.simulation.kafka.messages import FETCH, PRODUCE
from strandline.testing import SimulatedCluster

RATE = 1_000_000
RECORD = b"x" * 10_000
SECONDS = 8
BATCH = 10
"""Records of a batch of the Kafka client."""
WRITTEN, READ = Quota.PRODUCER_BYTE_RATE, Quota.CONSUMER_BYTE_RATE

Scenario = Callable[[SimulatedCluster], Awaitable[float]]


async def limit(cluster: SimulatedCluster, quota: Quota, rate: int | None = RATE) -> None:
    """For every user. It returns once the broker goes by it."""
    async with cluster.admin() as admin:
        await admin.alter_client_quotas([QuotaAlteration(QuotaEntity(DEFAULT), {quota: rate})])
    await cluster.host.clock.sleep(1)


async def write(cluster: SimulatedCluster, records: int) -> float:
    """Returns how long it took, seconds."""
    clock = cluster.host.clock
    async with cluster.producer(buffer_bytes=4 * RATE) as producer:
        began = clock.monotonic()
        for _ in range(records):
            _ = await producer.send("topic", RECORD)
        await producer.flush()
        return clock.monotonic() - began


async def writing(cluster: SimulatedCluster) -> float:
    await limit(cluster, WRITTEN)
    return await write(cluster, SECONDS * RATE // len(RECORD))


async def reading(cluster: SimulatedCluster) -> float:
    wanted = SECONDS * RATE // len(RECORD)
    assert await write(cluster, wanted) < SECONDS / 2, "nothing limits it"
    await limit(cluster, READ)
    clock = cluster.host.clock
    async with cluster.consumer(offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("topic", 0)])
        began, found = clock.monotonic(), 0
        while found < wanted:
            found += sum(map(len, (await consumer.getmany(timeout_ms=60_000)).values()))
        return clock.monotonic() - began


async def kafka_connection(cluster: SimulatedCluster) -> KafkaConnection:
    (machine,) = cluster._now.cluster.broker_machines
    return await connected(cluster._now.test, f"{machine.host}:{KAFKA_PORT}", [], flexible=True)


def records() -> bytes:
    return bytes(pack([(None, RECORD, (), 0)] * BATCH).seal())


async def kafka_write(cluster: SimulatedCluster) -> float:
    """Returns how long it took, seconds."""
    connection, clock = await kafka_connection(cluster), cluster.host.clock
    topic = OfTopic("topic", (PartitionRecords(0, memoryview(records())),))
    began = clock.monotonic()
    for _ in range(SECONDS * RATE // (BATCH * len(RECORD))):
        answer = await connection.ask(PRODUCE, ProduceRequest(ACKS_ALL, 10_000, (topic,)))
        assert [each.error for _, each in each_partition(answer.topics)] == [0]
    connection.close()
    return clock.monotonic() - began


async def kafka_writing(cluster: SimulatedCluster) -> float:
    await limit(cluster, WRITTEN)
    return await kafka_write(cluster)


async def kafka_reading(cluster: SimulatedCluster) -> float:
    assert await kafka_write(cluster) < SECONDS / 2, "nothing limits it"
    await limit(cluster, READ)
    connection, clock = await kafka_connection(cluster), cluster.host.clock
    began, offset, bytes_max = clock.monotonic(), 0, BATCH * len(RECORD) + len(records())
    while offset < SECONDS * RATE // len(RECORD):
        place = PartitionPosition(0, -1, offset, bytes_max)
        answer = await connection.ask(
            FETCH, FetchRequest(500, 1, bytes_max, 0, (OfTopic("topic", (place,)),))
        )
        for _, found in each_partition(answer.topics):
            assert found.error == 0
            offset = max((batch.next_offset for batch in iterate(found.records)), default=offset)
    connection.close()
    return clock.monotonic() - began


@pytest.mark.parametrize("scenario", [writing, reading, kafka_writing, kafka_reading])
def test_a_client_keeps_to_its_quota(scenario: Scenario) -> None:
    """Eight seconds' worth take seven: a second's worth is there at the start."""

    async def timed() -> float:
        await cluster.create_topic("topic")
        return await scenario(cluster)

    with SimulatedCluster(seed=1, brokers=1, broker_settings={"kafka_port": KAFKA_PORT}) as cluster:
        taken_s = cluster.run(timed())
    assert taken_s == pytest.approx(SECONDS - 1, rel=0.15)


def test_a_change_counts_while_a_client_writes_and_no_quota_is_no_limit() -> None:
    async def timed() -> tuple[float, float]:
        await cluster.create_topic("topic")
        await limit(cluster, WRITTEN, RATE // 10)
        slow_s = await write(cluster, RATE // len(RECORD))
        await limit(cluster, WRITTEN, None)
        return slow_s, await write(cluster, RATE // len(RECORD))

    with SimulatedCluster(seed=1, brokers=1) as cluster:
        slow_s, free_s = cluster.run(timed())
    assert free_s < slow_s / 4
