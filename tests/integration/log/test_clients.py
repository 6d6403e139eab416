"""Producer, consumer and admin against real brokers: in memory, but for what only a socket shows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest

from strandline import (
    BatchMetadata,
    Consumer,
    ConsumerRecord,
    Producer,
    RecordMetadata,
    TopicPartition,
)
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.errors import (
    InvalidConfig,
    InvalidRecord,
    InvalidReplicationFactor,
    InvalidRequest,
    MessageTooLarge,
    NotController,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from strandline.records import encode_values
from strandline.testing import MemoryCluster, SimulatedCluster
from tests.integration.support.harness import Harness
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

WAIT_MS = 10_000
WINDOW = 100
"""Records without an answer, so that a load lasts beyond the harm that is done in its middle."""

_topics = count(1)


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=3) as cluster:
        yield cluster


async def new_topic(cluster: MemoryCluster, partitions: int = 1, **config: str) -> str:
    name = f"clients-{next(_topics)}"
    async with cluster.admin() as admin:
        await admin.create_topic(
            name, partitions, replication_factor=3, config={k.replace("_", "."): v for k, v in config.items()}
        )
    return name


async def led_topic(cluster: MemoryCluster) -> str:
    """A topic whose leader has committed one record: from now on it takes what comes."""
    topic = await new_topic(cluster)
    async with cluster.producer() as producer:
        _ = await producer.send_and_wait(topic, b"first")
    return topic


async def read(consumer: Consumer, how_many: int) -> list[ConsumerRecord]:
    """The next records, in the order in which they come."""
    records: list[ConsumerRecord] = []
    while len(records) < how_many:
        batches = await consumer.getmany(timeout_ms=WAIT_MS, max_records=how_many - len(records))
        assert batches, f"{len(records)} of {how_many} records, and then nothing"
        records += [record for batch in batches.values() for record in batch]
    return records


# --- producing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_a_record_comes_out_as_it_went_in(cluster: MemoryCluster, codec: str) -> None:
    topic = await new_topic(cluster)
    async with (
        cluster.producer(compression=codec) as producer,
        cluster.consumer() as consumer,
    ):
        headers = (("trace", b"7"), ("none", None))
        first = await producer.send_and_wait(topic, b"v", b"k", timestamp_ms=1234, headers=headers)
        second = await producer.send_and_wait(topic)
        assert (first, second) == (RecordMetadata(topic, 0, 0), RecordMetadata(topic, 0, 1))
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 0)
        record, empty = await read(consumer, 2)
        assert record == (topic, 0, 0, 1234, b"k", b"v", headers)
        assert (empty.offset, empty.key, empty.value, empty.headers) == (1, None, None, ())


async def test_keys_keep_to_their_partition_and_order_within_it(cluster: MemoryCluster) -> None:
    topic = await new_topic(cluster, partitions=3)
    keys = [b"k%d" % (number % 10) for number in range(2000)]
    values: list[bytes | None] = [b"%d" % number for number in range(2000)]
    async with cluster.producer(batch_bytes=4096) as producer:
        sent = [await producer.send(topic, v, k) for k, v in zip(keys, values, strict=True)]
        bulk = await (await producer.send_many(topic, values, keys=keys))
        assert bulk.record_count == sum(batch.record_count for batch in bulk.batches) == 2000
        homes: dict[bytes, set[int]] = {key: set() for key in keys}
        for key, delivery in zip(keys, sent, strict=True):
            homes[key].add((await delivery).partition)
        assert all(len(home) == 1 for home in homes.values())
    async with cluster.consumer(offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(3)])
        by_key: dict[bytes, list[bytes]] = {key: [] for key in keys}
        for record in await read(consumer, 4000):
            assert record.key is not None and record.value is not None
            assert homes[record.key] == {record.partition}
            by_key[record.key].append(record.value)
    for key, got in by_key.items():
        wanted = [v for k, v in zip(keys, values, strict=True) if k == key]
        assert got == wanted + wanted


async def test_records_without_keys_spread_batch_by_batch(cluster: MemoryCluster) -> None:
    topic = await new_topic(cluster, partitions=3)
    async with cluster.producer(batch_bytes=1024) as producer:
        for _ in range(300):
            _ = await producer.send(topic, bytes(100))
        bulk = await (await producer.send_many(topic, [bytes(100)] * 300))
        assert {batch.partition for batch in bulk.batches} == {0, 1, 2}
        await producer.flush()
    async with cluster.consumer() as consumer:
        ends = await consumer.end_offsets([TopicPartition(topic, number) for number in range(3)])
    assert sum(ends.values()) == 600 and min(ends.values()) > 100


async def test_an_encoded_batch_goes_as_it_is_but_for_its_producer(cluster: MemoryCluster) -> None:
    topic = await new_topic(cluster)
    async with cluster.producer() as producer:
        batch = encode_values([b"a", b"b"], 77)
        assert await (await producer.send_batch(topic, 0, batch)) == BatchMetadata(topic, 0, 0, 2)
        assert await (await producer.send_batch(topic, 0, batch)) == BatchMetadata(topic, 0, 2, 2)
        with pytest.raises(InvalidRecord, match="producer id 5"):
            _ = await producer.send_batch(
                topic, 0, encode_values([b"a"], 77, producer_id=5, producer_epoch=0, base_sequence=0)
            )


async def test_oversized_records_are_refused_with_size_and_limit(cluster: MemoryCluster) -> None:
    topic = await new_topic(cluster)
    small = await new_topic(cluster, max_message_bytes="2048")
    async with cluster.producer() as producer:
        with pytest.raises(MessageTooLarge, match=str(RECORDS_BYTES_MAX)) as refused:
            _ = await producer.send(topic, bytes(RECORDS_BYTES_MAX))
        assert refused.value.limit == RECORDS_BYTES_MAX
        assert (await producer.send_and_wait(topic, bytes(400 * 1024))).offset == 0, "it travels alone"
        with pytest.raises(MessageTooLarge, match="2048"):
            _ = await producer.send(small, bytes(3000))
        # Batches are cut to what the topic takes, not only to what the producer would send.
        bulk = await (await producer.send_many(small, [bytes(100)] * 100))
        assert len(bulk.batches) > 5


def test_an_unknown_topic_or_partition_is_an_error_of_the_send() -> None:
    """On virtual time: what is unknown may be new, so a producer waits for seconds."""

    async def send(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("topic")
        async with cluster.producer() as producer:
            with pytest.raises(UnknownTopicOrPartition, match="nowhere"):
                _ = await producer.send("nowhere", b"v")
            with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 0, there is no 1"):
                _ = await producer.send("topic", b"v", partition=1)
            assert (await producer.send_and_wait("topic", b"v")).offset == 0, "the producer lives on"

    with SimulatedCluster(seed=1) as cluster:
        cluster.run(send(cluster))


async def test_a_record_that_is_none_is_an_error_of_the_send(cluster: MemoryCluster) -> None:
    topic = await new_topic(cluster)
    async with cluster.producer() as producer:
        with pytest.raises(TypeError, match="str"):
            _ = await producer.send(topic, "text")  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match=r"timestamp = 1\.5"):
            _ = await producer.send(topic, b"v", timestamp_ms=1.5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="headers are"):
            _ = await producer.send(topic, b"x", headers=None)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="header 'h'"):
            _ = await producer.send(topic, b"v", headers=[("h", "text")])  # type: ignore[list-item]
        assert (await producer.send_and_wait(topic, b"v")).offset == 0, "the producer lives on"


@pytest.mark.parametrize(("acks", "offset"), [(1, 1), (0, -1)])
async def test_with_fewer_acks_a_record_is_there_too(cluster: MemoryCluster, acks: int, offset: int) -> None:
    topic = await led_topic(cluster)
    async with cluster.producer(acks=acks) as producer:
        assert (await producer.send_and_wait(topic, b"v")).offset == offset
    async with cluster.consumer(offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [record.value for record in await read(consumer, 2)] == [b"first", b"v"]


async def test_a_producer_that_stops_leaves_nothing_in_flight_without_any_answer(shared: Harness) -> None:
    """With acks=0 the end of the stream is the only answer: `stop` waits until the broker ends it too."""
    topic, bootstrap = (await shared.create_topic([(1, 2, 3)])).name, shared.cluster.bootstrap
    async with Producer(bootstrap) as producer:
        _ = await producer.send_and_wait(topic, b"first")
    values = [b"%d" % number for number in range(500)]
    async with Producer(bootstrap, acks=0, batch_bytes=1024) as producer:
        for value in values:
            _ = await producer.send(topic, value)
    async with Consumer(bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [record.value for record in await read(consumer, 501)] == [b"first", *values]


async def test_a_producer_that_sends_more_than_its_buffer_waits_and_loses_nothing(
    cluster: MemoryCluster,
) -> None:
    topic = await new_topic(cluster)
    async with cluster.producer(buffer_bytes=64 * 1024, batch_bytes=4096) as producer:
        values: list[bytes | None] = [bytes(1000)] * 2000
        async with asyncio.TaskGroup() as tasks:
            bulk = tasks.create_task(producer.send_many(topic, values))
            for _ in range(2000):
                _ = await producer.send(topic, bytes(1000))
        await bulk.result()
        await producer.flush()
    async with cluster.consumer() as consumer:
        assert await consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 4000}


# --- consuming ----------------------------------------------------------------------------------


async def filled(cluster: MemoryCluster, records: int) -> TopicPartition:
    """A partition with records 0, 1, … at timestamps 0, 10, …, ten a batch."""
    topic = await new_topic(cluster)
    async with cluster.producer(linger_ms=60_000) as producer:
        for number in range(records):
            _ = await producer.send(topic, b"%d" % number, timestamp_ms=10 * number)
            if number % 10 == 9:
                await producer.flush()
    return TopicPartition(topic, 0)


async def test_every_way_of_reading_moves_one_position(cluster: MemoryCluster) -> None:
    partition = await filled(cluster, 100)
    async with cluster.consumer(offset_reset="earliest") as consumer:
        consumer.assign([partition])
        assert consumer.assignment() == {partition}
        assert (await consumer.getone()).offset == 0
        assert await consumer.position(partition) == 1
        assert [r.offset for r in await read(consumer, 4)] == [1, 2, 3, 4]
        (batch, *_) = batches = await consumer.getbatches(timeout_ms=WAIT_MS)
        assert (batch.base_offset, batch.record_count) == (5, 5)
        assert [r.offset for r in batch.records()] == [5, 6, 7, 8, 9]
        assert await consumer.position(partition) == batches[-1].next_offset
        consumer.seek(partition, 95)
        async for record in consumer:
            if record.offset == 99:
                break
        assert await consumer.position(partition) == 100
        assert (consumer.highwater(partition), consumer.lag(partition)) == (100, 0)
        assert await consumer.getmany(timeout_ms=1) == {}
        consumer.seek(partition, 13)
        assert (await consumer.getone()).offset == 13, "a batch that begins before the position is trimmed"
        assert consumer.lag(partition) == 86


async def test_offsets_by_end_and_by_time(cluster: MemoryCluster) -> None:
    partition = await filled(cluster, 30)
    async with cluster.consumer() as consumer:
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 30}
        found = await consumer.offsets_for_times({partition: 101})
        assert found[partition] == (11, 110)
        assert await consumer.offsets_for_times({partition: 291}) == {partition: None}
        with pytest.raises(InvalidRequest):
            await consumer.offsets_for_times({partition: -2})
        assert await consumer.partitions_for(partition.topic) == [0]
        with pytest.raises(InvalidRequest, match="not assigned"):
            await consumer.position(partition)
        consumer.assign([partition])
        await consumer.seek_to_beginning()
        assert await consumer.position(partition) == 0
        await consumer.seek_to_end(partition)
        assert await consumer.position(partition) == 30


@pytest.mark.parametrize(
    ("settings", "position"),
    [
        ({"offset_reset": "earliest"}, 0),
        ({"offset_reset": "latest"}, 30),
        ({"offset_reset_timestamp_ms": 101}, 11),
        ({"offset_reset_timestamp_ms": 10_000}, 30),
    ],
)
async def test_without_a_valid_position_the_policy_decides(
    cluster: MemoryCluster, settings: dict[str, Any], position: int
) -> None:
    partition = await filled(cluster, 30)
    async with cluster.consumer(**settings) as consumer:
        consumer.assign([partition])
        assert await consumer.position(partition) == position
        consumer.seek(partition, 1000)
        if position < 30:
            assert (await consumer.getone()).offset == position
        else:
            assert await consumer.getmany(timeout_ms=1) == {}
            await eventually(lambda: consumer.lag(partition) == 0)


async def test_with_policy_none_the_error_names_offset_and_range(cluster: MemoryCluster) -> None:
    partition = await filled(cluster, 30)
    async with cluster.consumer(offset_reset="none") as consumer:
        consumer.assign([partition])
        with pytest.raises(OffsetOutOfRange, match=r"no position.*0 to 30"):
            await consumer.getone()
        consumer.seek(partition, 1000)
        with pytest.raises(OffsetOutOfRange, match=r"1000.*0 to 30"):
            await consumer.getone()
        consumer.seek(partition, 3)
        assert (await consumer.getone()).offset == 3


def test_an_unknown_topic_is_an_error_of_the_get_call() -> None:
    """On virtual time: a topic that is unknown may be new, so a consumer waits for seconds."""

    async def get(cluster: SimulatedCluster) -> None:
        async with cluster.consumer() as consumer:
            consumer.assign([TopicPartition("nowhere", 0)])
            with pytest.raises(UnknownTopicOrPartition, match="nowhere"):
                await consumer.getone()

    with SimulatedCluster(seed=1) as cluster:
        cluster.run(get(cluster))


async def test_a_waiting_consumer_gets_a_record_as_soon_as_it_is_committed(cluster: MemoryCluster) -> None:
    partition = await filled(cluster, 0)
    async with cluster.consumer() as consumer, cluster.producer() as producer:
        consumer.assign([partition])
        await consumer.seek_to_end()
        for number in range(20):
            async with asyncio.TaskGroup() as tasks:
                waiting = tasks.create_task(consumer.getone())
                _ = await producer.send(partition.topic, b"%d" % number)
            assert waiting.result().value == b"%d" % number


# --- admin --------------------------------------------------------------------------------------


async def test_admin_creates_alters_describes_and_deletes(cluster: MemoryCluster) -> None:
    async with cluster.admin() as admin:
        topic_id = await admin.create_topic("admin", 2, 3, {"retention.ms": "5000"})
        assert "admin" in await admin.list_topics()
        (topic,) = await admin.describe_topics(["admin"])
        assert (topic.name, topic.topic_id, dict(topic.config)) == (
            "admin",
            topic_id,
            {"retention.ms": "5000"},
        )
        assert all(p.leader in p.isr and len(p.replicas) == 3 for p in topic.partitions)
        assert [(p.high_watermark, p.log_end_offset) for p in topic.partitions] == [(0, 0), (0, 0)]
        await admin.alter_topic("admin", set={"retention.ms": "6000"})
        with pytest.raises(InvalidConfig, match="retention"):
            await admin.alter_topic("admin", set={"retention.ms": "soon"})
        with pytest.raises(TopicAlreadyExists):
            await admin.create_topic("admin")
        with pytest.raises(InvalidReplicationFactor, match="3"):
            await admin.create_topic("wide", 1, 4)
        cluster_description = await admin.describe_cluster()
        assert [b.endpoint.id for b in cluster_description.brokers] == list(cluster.broker_ids)
        await admin.delete_topics(["admin"])
        with pytest.raises(UnknownTopicOrPartition):
            await admin.delete_topics(["admin"])


def test_without_a_controller_admin_calls_fail_and_records_flow() -> None:
    """The cluster serves while no controller runs."""

    async def ask(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("topic")
        cluster.kill_controller(1)
        async with cluster.producer() as producer:
            assert (await producer.send_and_wait("topic", b"v")).offset == 0
        async with cluster.admin(request_timeout_ms=500) as admin:
            with pytest.raises(NotController, match="no active controller"):
                await admin.create_topic("more")

    with SimulatedCluster(seed=1) as cluster:
        cluster.run(ask(cluster))


# --- failover -----------------------------------------------------------------------------------


@on_virtual_time
@pytest.mark.strandline(seed=1)
@pytest.mark.parametrize("harm", ["kill", "hang"])
async def test_producer_and_consumer_follow_the_leader(
    simulated_cluster: SimulatedCluster, harm: str
) -> None:
    """Nothing acknowledged is lost, doubled or out of order, and both continue."""
    cluster, topic = simulated_cluster, "topic"
    await cluster.create_topic(topic, partitions=3)
    partitions = [TopicPartition(topic, number) for number in range(3)]
    records: list[ConsumerRecord] = []
    stop = asyncio.Event()

    async def consume(consumer: Consumer) -> None:
        consumer.assign(partitions)
        while not stop.is_set():
            for batch in (await consumer.getmany(timeout_ms=50)).values():
                records.extend(batch)

    async with (
        cluster.producer() as producer,
        cluster.consumer(offset_reset="earliest") as consumer,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(consume(consumer))
        sent = []
        for number in range(3000):
            sent.append(await producer.send(topic, b"%d" % number, partition=number % 3))
            if number == 1500:
                victim = cluster.leader(topic)
                cluster.kill(victim) if harm == "kill" else cluster.pause(victim)
            if number >= WINDOW:
                await sent[number - WINDOW]
        landed = [await delivery for delivery in sent]
        await eventually(lambda: len(records) >= 3000, deadline_s=20)
        stop.set()
    assert Counter(record.value for record in records) == Counter(b"%d" % n for n in range(3000))
    for partition in range(3):
        got = [record for record in records if record.partition == partition]
        assert [record.offset for record in got] == list(range(1000))
        assert [int(record.value or b"") for record in got] == list(range(partition, 3000, 3))
        offsets = [metadata.offset for metadata in landed if metadata.partition == partition]
        assert [offset for offset in offsets if offset >= 0] == list(range(1000))
