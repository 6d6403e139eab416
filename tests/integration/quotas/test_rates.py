"""Clients keep to their quotas, on virtual time: over gRPC, and at the Kafka port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from strandline.adapters.codecs import log
from strandline.broker.kafka.wire.fetch import FetchRequest, PartitionPosition
from strandline.broker.kafka.wire.metadata import MetadataRequest
from strandline.broker.kafka.wire.produce import PartitionRecords, ProduceRequest
from strandline.broker.kafka.wire.topics import OfTopic, each_partition
from strandline.ids import ACKS_ALL, TopicPartition
from strandline.records import iterate, pack
from strandline.security.quotas.model import DEFAULT, Quota, QuotaAlteration, QuotaEntity
from strandline.simulation.cluster import KAFKA_PORT
from strandline.testing import SimulatedCluster
from strandline.vocabulary.log import FetchPartition, ProduceEntry
from strandline.vocabulary.log import FetchRequest as OwnFetchRequest
from strandline_lab.simulation.kafka.connection import KafkaConnection, connected
from strandline_lab.simulation.kafka.messages import FETCH, METADATA, PRODUCE

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


def timed(scenario: Scenario) -> float:
    """How long it takes in a cluster of its own, seconds."""

    async def play() -> float:
        await cluster.create_topic("topic")
        return await scenario(cluster)

    with SimulatedCluster(seed=1, brokers=1, broker_settings={"kafka_port": KAFKA_PORT}) as cluster:
        return cluster.run(play())


# --- a stream or a connection for each batch -----------------------------------------------------


async def each_by_itself(
    cluster: SimulatedCluster, work: Callable[[], Awaitable[None]], count: int, at_once: int
) -> float:
    """The work `count` times, `at_once` of them side by side. Returns how long it took, seconds."""
    clock, left = cluster.host.clock, iter(range(count))

    async def one_after_the_other() -> None:
        for _ in left:
            await work()

    began = clock.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(one_after_the_other())
    return clock.monotonic() - began


BATCHES = SECONDS * RATE // (BATCH * len(RECORD))


async def write_by_a_new_stream(cluster: SimulatedCluster) -> None:
    transport = cluster.host.transport(None)
    stream = await transport.open(cluster.bootstrap, log.PRODUCE, timeout_s=60)
    await stream.write([ProduceEntry(TopicPartition("topic", 0), records(), ACKS_ALL, 60_000)])
    (result,) = await stream.read()
    assert result.error is None
    await transport.close()


async def write_by_a_new_connection(cluster: SimulatedCluster) -> None:
    connection = await kafka_connection(cluster)
    topic = OfTopic("topic", (PartitionRecords(0, memoryview(records())),))
    answer = await connection.ask(PRODUCE, ProduceRequest(ACKS_ALL, 60_000, (topic,)))
    assert [each.error for _, each in each_partition(answer.topics)] == [0]
    connection.close()


def writing_anew(write: Callable[[SimulatedCluster], Awaitable[None]], at_once: int) -> Scenario:
    async def scenario(cluster: SimulatedCluster) -> float:
        await limit(cluster, WRITTEN)
        return await each_by_itself(cluster, partial(write, cluster), BATCHES, at_once)

    return scenario


async def read_by_a_new_stream(cluster: SimulatedCluster, found: list[int]) -> None:
    transport = cluster.host.transport(None)
    stream = await transport.open(cluster.bootstrap, log.FETCH, timeout_s=60)
    place = FetchPartition(TopicPartition("topic", 0), 0, -1, len(records()))
    await stream.write(OwnFetchRequest(1, 0, 0, len(records()), [place]))
    answer = await stream.read()
    found.append(sum(len(each.records) for each in answer.partitions))
    await transport.close()


async def reading_anew(cluster: SimulatedCluster) -> float:
    """Fifty streams at a time, each of its own and for one answer."""
    await kafka_write(cluster)
    await limit(cluster, READ)
    clock, found = cluster.host.clock, list[int]()
    began = clock.monotonic()

    async def reads() -> None:
        while sum(found) < SECONDS * RATE:
            await read_by_a_new_stream(cluster, found)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(50):
            tasks.create_task(reads())
    return clock.monotonic() - began


@pytest.mark.parametrize(
    "scenario",
    [
        writing_anew(write_by_a_new_stream, 1),
        writing_anew(write_by_a_new_stream, 10),
        writing_anew(write_by_a_new_connection, 1),
        writing_anew(write_by_a_new_connection, 10),
        reading_anew,
    ],
    ids=["a stream", "streams side by side", "a connection", "connections side by side", "reading streams"],
)
def test_a_client_that_begins_anew_for_each_batch_keeps_to_its_quota(scenario: Scenario) -> None:
    """A20: what it owes is asked before the first message of a stream or a connection too."""
    taken_s = timed(scenario)
    assert taken_s >= 0.85 * (SECONDS - 1)


@pytest.mark.parametrize("scenario", [writing, reading, kafka_writing, kafka_reading])
def test_a_client_keeps_to_its_quota(scenario: Scenario) -> None:
    """Eight seconds' worth take seven: a second's worth is there at the start."""

    taken_s = timed(scenario)
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


# --- connections of an address -------------------------------------------------------------------

CONNECTIONS = 20
"""A second."""


async def asked_anew(cluster: SimulatedCluster) -> None:
    connection = await kafka_connection(cluster)
    await connection.ask(METADATA, MetadataRequest(()))
    connection.close()


@pytest.mark.parametrize("at_once", [1, 50])
def test_an_address_keeps_to_its_rate_of_connections(at_once: int) -> None:
    """KIP-612: eight seconds' worth take seven, and each of them is served."""

    async def scenario(cluster: SimulatedCluster) -> float:
        rate = {Quota.CONNECTION_CREATION_RATE: CONNECTIONS}
        async with cluster.admin() as admin:
            await admin.alter_client_quotas([QuotaAlteration(QuotaEntity(ip=DEFAULT), rate)])
        await cluster.host.clock.sleep(2)
        return await each_by_itself(cluster, partial(asked_anew, cluster), SECONDS * CONNECTIONS, at_once)

    assert timed(scenario) == pytest.approx(SECONDS - 1, rel=0.15)
