"""Batches as large as those of Kafka's clients, and as large as a message by gRPC holds, on real brokers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from functools import partial

import pytest

from strandline import Consumer, TopicPartition
from strandline.config.limits import KIB, MESSAGE_BYTES_MAX
from strandline.records import HEADER_BYTES, encode_batch
from strandline.rpc import log_pb2
from strandline.vocabulary.topic_config import TopicConfig
from tests.conftest import ClusterFactory
from tests.integration.log.test_compaction import stored
from tests.integration.support.harness import FAULT_SETTINGS, Harness, Topic
from tests.integration.support.lives import judged
from tests.integration.support.raw import CALL_S_MAX
from tests.waiting import eventually

DEFAULT = TopicConfig().max_message_bytes
LARGEST = MESSAGE_BYTES_MAX - 512 * KIB
RECORD_BYTES = 32
"""More than a record takes beside key and value."""


@pytest.fixture
async def harness(make_cluster: ClusterFactory) -> AsyncIterator[Harness]:
    settings = {**FAULT_SETTINGS, "compaction_check_ms": 100, "flush_check_ms": 50}
    async with judged(await make_cluster(brokers=3, broker_settings=settings)) as harness:
        yield harness


def batch_of(size: int, key: bytes) -> bytes:
    """A batch of one record, less than RECORD_BYTES below a size."""
    value = os.urandom(size - HEADER_BYTES - RECORD_BYTES - len(key))
    batch = encode_batch([(key, value, (), 1_700_000_000_000)])
    assert size - RECORD_BYTES < len(batch) <= size
    return batch


async def produced(topic: Topic, *batches: bytes) -> list[log_pb2.ProduceResult]:
    """The answers of broker 1 to one message for each batch."""
    name, call = topic.partitions[0], topic.harness.brokers.log(1).Produce(timeout=4 * CALL_S_MAX)
    for number, records in enumerate(batches):
        entry = log_pb2.PartitionRecords(
            correlation_id=number, topic=name.topic, partition=name.partition, acks=-1, timeout_ms=10_000,
            records=records,
        )  # fmt: skip
        await call.write(log_pb2.ProduceRequest(entries=[entry]))
    await call.done_writing()
    return [result async for response in call for result in response.results]


async def consumed(harness: Harness, topic: Topic, end: int) -> list[tuple[int, bytes, int]]:
    """(offset, key, length of the value) of all records below an offset."""
    found: list[tuple[int, bytes, int]] = []
    async with Consumer(harness.cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic.name, 0)])
        while not found or found[-1][0] < end - 1:
            for records in (await consumer.getmany(timeout_ms=1_000)).values():
                found += [(r.offset, r.key or b"", len(r.value or b"")) for r in records]
    return found


@pytest.mark.parametrize("bytes_max", [DEFAULT, LARGEST], ids=["default", "largest"])
@pytest.mark.timeout(120)
async def test_a_batch_as_large_as_its_topic_takes_is_replicated_recovered_and_read(
    harness: Harness, bytes_max: int
) -> None:
    """CORRECTNESS E15: with acks=all, so each of three replicas has it; every broker is killed, and scans it.
    A consumer whose fetches are for 512 KiB reads it."""
    topic = await harness.create_topic([(1, 2, 3)], {"max.message.bytes": str(bytes_max)})
    large, small = batch_of(bytes_max, b"large"), batch_of(1 * KIB, b"small")
    results = await produced(topic, small, large, large, small)
    assert [(result.error.code, result.base_offset) for result in results] == [(0, at) for at in range(4)]
    expected = [(0, b"small"), (1, b"large"), (2, b"large"), (3, b"small")]
    assert [found[:2] for found in await consumed(harness, topic, 4)] == expected
    for broker in harness.cluster.broker_ids:
        await harness.cluster.kill_broker(broker)
    for broker in harness.cluster.broker_ids:
        await harness.cluster.start_broker(broker)
    await topic.isr_is(1, 2, 3)
    found = await consumed(harness, topic, 4)
    assert [each[:2] for each in found] == expected
    assert found[1][2] > bytes_max - HEADER_BYTES - 2 * RECORD_BYTES


@pytest.mark.timeout(120)
async def test_a_large_batch_of_a_compacted_topic_goes_when_its_key_is_written_again(
    harness: Harness,
) -> None:
    """Compaction reads batches of any size; of the two large ones the first key's is left out."""
    # What is not synced is not compacted, and a log at rest is synced after half a minute.
    config = {
        "cleanup.policy": "compact", "segment.bytes": "4096", "min.cleanable.dirty.ratio": "0",
        "flush.messages": "1",
    }  # fmt: skip
    topic = await harness.create_topic([(1, 2, 3)], config)
    batches = [batch_of(DEFAULT, b"a"), batch_of(DEFAULT, b"b"), *[batch_of(1 * KIB, b"a")] * 8]
    assert {result.error.code for result in await produced(topic, *batches)} == {0}

    def clean(broker: int) -> bool:
        keys = [(offset, key) for offset, key, _ in stored(topic.folder(broker))]
        return bool(keys) and keys[0] == (1, b"b")

    for broker in harness.cluster.broker_ids:
        await eventually(partial(clean, broker), deadline_s=30, what=f"{broker} compacts")
    found = await consumed(harness, topic, len(batches))
    assert found[0][:2] == (1, b"b") and found[-1][:2] == (len(batches) - 1, b"a")
