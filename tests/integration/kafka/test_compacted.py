"""Kafka clients read compacted topics.

Where strandline compacts a batch away, it leaves a batch without records that covers the offsets. Clients
have to step over it: one that reads from the start, and one whose position lies within it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaError
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.storage.inspect import BatchFacts, dump
from strandline.errors import CorruptMessage
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS
from tests.waiting import eventually

TOPIC = "compacted"
CONFIG = {
    "cleanup.policy": "compact", "segment.bytes": "4096", "min.cleanable.dirty.ratio": "0.01",
    "compression.type": "producer", "message.timestamp.type": "CreateTime",
}  # fmt: skip
KEYS, ROUNDS = 20, 40
READ_S_MAX = 30

Read = list[tuple[int, bytes, bytes]]
"""(offset, key, value) of each record."""
ReadFrom = Callable[[str, int, int], Read]
"""Reads from an offset until the position is another one, and returns the records."""


def by_confluent_kafka(bootstrap: str, start: int, end: int) -> Read:
    consumer = ConfluentConsumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True}
    )
    consumer.assign([ConfluentPartition(TOPIC, 0, start)])
    found: Read = []
    while True:
        message = consumer.poll(READ_S_MAX)
        assert message is not None, f"nothing after {found[-1:]}"
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            assert message.offset() == end
            consumer.close()
            return found
        found.append((message.offset() or 0, message.key() or b"", message.value() or b""))


def by_kafka_python(bootstrap: str, start: int, end: int) -> Read:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    partition = PythonPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek(partition, start)
    found: Read = []
    while consumer.position(partition) < end:
        for records in consumer.poll(timeout_ms=1_000).values():
            found += [(each.offset, each.key, each.value) for each in records]
    consumer.close()
    return found


def by_aiokafka(bootstrap: str, start: int, end: int) -> Read:
    async def read() -> Read:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        await consumer.start()
        partition = AioPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek(partition, start)
        found: Read = []
        async with asyncio.timeout(READ_S_MAX):
            while await consumer.position(partition) < end:
                for records in (await consumer.getmany(timeout_ms=1_000)).values():
                    found += [(each.offset, each.key, each.value) for each in records]
        await consumer.stop()
        return found

    return asyncio.run(read())


def gaps(folder: Path) -> list[BatchFacts]:
    """The batches without records; none while segments are being swapped."""
    try:
        return [each for each in dump(folder, files=SYSTEM_FILES) if not each.records]
    except (OSError, CorruptMessage):
        return []


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    """One broker, which compacts all the time, with a topic whose records were nearly all overwritten."""
    settings = {**FAULT_SETTINGS, "compaction_check_ms": 100, "flush_check_ms": 50}
    cluster = await make_module_cluster(brokers=1, broker_settings=settings, kafka=True)
    await asyncio.to_thread(write, cluster.kafka_bootstrap)
    return cluster


def write(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIG)]).values()
    created.result()
    producer = ConfluentProducer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(ROUNDS):
        for key in range(KEYS):
            producer.produce(TOPIC, b"%d" % number + b"." * 80, b"key %d" % key)
        assert producer.flush(READ_S_MAX) == 0


@pytest.mark.parametrize(
    "read", [by_confluent_kafka, by_kafka_python, by_aiokafka], ids=lambda each: each.__name__
)
async def test_a_client_reads_what_is_left_and_steps_over_the_rest(
    cluster: LocalCluster, read: ReadFrom
) -> None:
    """What is left is at its offset, and the last record of each key is left."""
    (folder,) = [each for each in cluster.data_dir(1).iterdir() if each.name.startswith(f"{TOPIC}-0-")]
    gap = (await eventually(lambda: gaps(folder), deadline_s=30, what="a batch is compacted away"))[0]
    end = KEYS * ROUNDS
    for start in (0, gap.base_offset, (gap.base_offset + gap.last_offset) // 2, gap.last_offset):
        found = await asyncio.to_thread(read, cluster.kafka_bootstrap, start, end)
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets)) and offsets[0] >= start
        last = {key: (offset, value) for offset, key, value in found}
        assert last == {
            b"key %d" % key: (end - KEYS + key, b"%d" % (ROUNDS - 1) + b"." * 80) for key in range(KEYS)
        }
