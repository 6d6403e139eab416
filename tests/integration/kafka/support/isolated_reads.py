"""Reads all records of a topic that an isolation level shows, by consumers of three clients."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

from tests.integration.kafka.support.transactors import AIOKAFKA, CONFLUENT, KAFKA_PYTHON
from tests.waiting import eventually

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
READ_S_MAX: Final = 60.0
POLL_MS: Final = 100

Values = list[list[bytes]]
"""The values of each partition, in their order."""


async def read(kind: str, bootstrap: str, topic: str, partitions: int, isolation: str = COMMITTED) -> Values:
    """All values up to the end that this isolation level has now. Raises TimeoutError."""
    async with asyncio.timeout(READ_S_MAX):
        match kind:
            case "aiokafka":
                return await _by_aiokafka(bootstrap, topic, partitions, isolation)
            case "confluent":
                return await asyncio.to_thread(_by_confluent, bootstrap, topic, partitions, isolation)
            case _:
                return await asyncio.to_thread(_by_kafka_python, bootstrap, topic, partitions, isolation)


async def shows(
    bootstrap: str, topic: str, expected: Sequence[Sequence[bytes]], kind: str = AIOKAFKA
) -> None:
    """Returns once a reader of what is committed sees just these values in each partition."""
    wanted = [list(each) for each in expected]

    async def seen() -> bool:
        found = await read(kind, bootstrap, topic, len(wanted))
        # What is shown once stays: no record too many may be there, not even for a moment.
        for values, these in zip(found, wanted, strict=True):
            assert values == these[: len(values)]
        return found == wanted

    await eventually(seen, deadline_s=READ_S_MAX, what=f"{kind} sees what is committed to {topic}")


async def _by_aiokafka(bootstrap: str, topic: str, partitions: int, isolation: str) -> Values:
    names = [AiokafkaPartition(topic, number) for number in range(partitions)]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, isolation_level=isolation
    )
    found: Values = [[] for _ in names]
    await consumer.start()
    try:
        consumer.assign(names)
        await consumer.seek_to_beginning(*names)
        ends = await consumer.end_offsets(names)
        while any([await consumer.position(each) < ends[each] for each in names]):
            for name, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
                found[name.partition] += [each.value for each in records]
        return found
    finally:
        await consumer.stop()


def _by_confluent(bootstrap: str, topic: str, partitions: int, isolation: str) -> Values:
    consumer = ConfluentConsumer({
        "bootstrap.servers": bootstrap,
        "group.id": f"reader-of-{topic}",
        "enable.auto.commit": False,
        "isolation.level": isolation,
        "enable.partition.eof": True,
    })  # fmt: skip
    found: Values = [[] for _ in range(partitions)]
    ended = set[int | None]()
    try:
        consumer.assign([ConfluentPartition(topic, number, 0) for number in range(partitions)])
        while len(ended) < partitions:
            message = consumer.poll(POLL_MS / 1000)
            if message is None:
                continue
            if (error := message.error()) is None:
                partition, value = message.partition(), message.value()
                assert partition is not None and isinstance(value, bytes)
                found[partition].append(value)
            elif error.code() == ConfluentError._PARTITION_EOF:
                ended.add(message.partition())
        return found
    finally:
        consumer.close()


def _by_kafka_python(bootstrap: str, topic: str, partitions: int, isolation: str) -> Values:
    names = [PythonPartition(topic, number) for number in range(partitions)]
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), enable_auto_commit=False, isolation_level=isolation
    )
    found: Values = [[] for _ in names]
    try:
        consumer.assign(names)
        consumer.seek_to_beginning(*names)
        ends = consumer.end_offsets(names)
        while any(consumer.position(each) < ends[each] for each in names):
            for name, records in consumer.poll(timeout_ms=POLL_MS).items():
                found[name.partition] += [each.value for each in records]
        return found
    finally:
        consumer.close()


READERS: Final = (AIOKAFKA, CONFLUENT, KAFKA_PYTHON)
