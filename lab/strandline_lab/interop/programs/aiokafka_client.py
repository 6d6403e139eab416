"""aiokafka: topics, records, a group, and administration."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any, Final

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from strandline_lab.interop.programs.claims import COPIED, claim_async, halves, read_back, same, version
from strandline_lab.interop.programs.security import of_aiokafka

CODECS: Final = (None, "gzip", "snappy", "lz4", "zstd")
RECORDS: Final = 100


class Client:
    """Works on topics of its own."""

    def __init__(self, bootstrap: str) -> None:
        self.common: dict[str, Any] = {"bootstrap_servers": bootstrap, **of_aiokafka()}
        self.topic = self.group = f"aiokafka-{time.time_ns()}"

    async def create(self) -> None:
        admin = AIOKafkaAdminClient(**self.common)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(self.topic, 3, 3)])
            (found,) = await admin.describe_topics([self.topic])
            same(sorted(each["partition"] for each in found["partitions"]), [0, 1, 2])
        finally:
            await admin.close()

    async def produce(self) -> None:
        for codec in CODECS:
            async with AIOKafkaProducer(
                **self.common, compression_type=codec, enable_idempotence=True
            ) as producer:
                sent = [
                    await producer.send(self.topic, f"{codec}-{number}".encode() * 20)
                    for number in range(RECORDS)
                ]
                await asyncio.wait(sent)
                same([each.exception() for each in sent if each.exception()], [])

    async def consume(self) -> None:
        expected = len(CODECS) * RECORDS
        read: list[Any] = []
        for wanted in (expected // 2, expected):
            consumer = AIOKafkaConsumer(
                self.topic, **self.common, group_id=self.group,
                auto_offset_reset="earliest", enable_auto_commit=False,
            )  # fmt: skip
            await consumer.start()
            try:
                while len(read) < wanted:
                    found = await consumer.getmany(timeout_ms=1000, max_records=wanted - len(read))
                    for records in found.values():
                        read += records
                await consumer.commit()
            finally:
                await consumer.stop()
        same(len({record.value for record in read}), expected)

    async def share(self) -> None:
        """Two members with the default assignor."""
        members = [
            AIOKafkaConsumer(
                self.topic, **self.common, group_id=f"{self.group}-two",
                enable_auto_commit=False,
            )
            for _ in range(2)
        ]  # fmt: skip
        try:
            for member in members:
                await member.start()
            while sorted(len(member.assignment()) for member in members) != [1, 2]:
                for member in members:
                    await member.getmany(timeout_ms=100)
        finally:
            for member in members:
                await member.stop()

    async def offsets(self) -> None:
        partitions = [TopicPartition(self.topic, number) for number in range(3)]
        consumer = AIOKafkaConsumer(**self.common)
        await consumer.start()
        try:
            same(set((await consumer.beginning_offsets(partitions)).values()), {0})
            same(sum((await consumer.end_offsets(partitions)).values()), len(CODECS) * RECORDS)
            found = await consumer.offsets_for_times({partitions[0]: 1})
            same(found[partitions[0]].offset, 0)
        finally:
            await consumer.stop()

    async def groups(self) -> None:
        admin = AIOKafkaAdminClient(**self.common)
        await admin.start()
        try:
            same(self.group in {name for name, *_ in await admin.list_consumer_groups()}, True)
            committed = await admin.list_consumer_group_offsets(self.group)
            same(sum(each.offset for each in committed.values()), len(CODECS) * RECORDS)
            await admin.delete_topics([self.topic])
        finally:
            await admin.close()

    async def copy(self) -> None:
        """Writes and reads over the death of a leader. The runner compares what is read."""
        topic = f"{self.topic}-copied"
        admin = AIOKafkaAdminClient(**self.common)
        await admin.start()
        await admin.create_topics([NewTopic(topic, 3, 3)])
        await admin.close()
        async with (
            AIOKafkaProducer(**self.common, enable_idempotence=True) as producer,
            AIOKafkaConsumer(
                topic, **self.common, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
            ) as consumer,
        ):
            for numbers in halves(topic):
                for number in numbers:
                    await producer.send(
                        topic, f"value-{number}".encode(), f"key-{number}".encode(), number % 3,
                        headers=[("number", f"{number}".encode())],
                    )  # fmt: skip
                await producer.flush()
                for _ in numbers:
                    record = await consumer.getone()
                    read_back(record.partition, record.key, record.headers[0], record.value)
                await consumer.commit()


def main(bootstrap: str) -> None:
    version(aiokafka.__version__)
    client = Client(bootstrap)
    claim_async("topics are created and described", client.create)
    claim_async("batches of each codec are acknowledged", client.produce)
    claim_async("a group reads, commits, and goes on where it was", client.consume)
    claim_async("two members share the partitions", client.share)
    claim_async("offsets are listed, also by time", client.offsets)
    claim_async("groups are listed, topics deleted", client.groups)
    claim_async(COPIED, client.copy)


if __name__ == "__main__":
    main(sys.argv[1])
