"""Records that are read, changed and written with the offsets in one transaction, by unmodified clients."""

from __future__ import annotations

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

from strandline import Admin, Producer
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.kafka.support.isolated_reads import shows
from tests.integration.kafka.support.transactors import KINDS, Fenced, transactor
from tests.integration.support.harness import FAULT_SETTINGS

PARTITIONS, RECORDS, AT_ONCE = 2, 20, 5


@pytest.fixture(scope="module")
async def local(make_module_cluster: ClusterFactory) -> LocalCluster:
    settings = {**FAULT_SETTINGS, "transaction_state_topic_partitions": 5}
    return await make_module_cluster(brokers=3, broker_settings=settings, kafka=True)


class Worker:
    """Copies from one topic to the partitions of the same numbers in another."""

    def __init__(self, local: LocalCluster, kind: str) -> None:
        self._local = local
        self._kind = kind
        self._source, self._target = f"source-{kind}", f"target-{kind}"
        self._group = f"group-{kind}"

    def values(self, partition: int) -> list[bytes]:
        return [f"{partition}-{number}".encode() for number in range(RECORDS)]

    async def prepare(self) -> None:
        async with Admin(self._local.bootstrap) as admin, Producer(self._local.bootstrap) as producer:
            for name in (self._source, self._target):
                await admin.create_topic(name, partitions=PARTITIONS, replication_factor=3)
            for partition in range(PARTITIONS):
                for value in self.values(partition):
                    await producer.send_and_wait(self._source, value, partition=partition)

    async def work(self, *, die_after: int | None = None) -> None:
        """Copies from where the last worker ended, each few records in a transaction. Every second one is
        aborted and done again. A worker that is to die leaves its transaction of this number open."""
        bootstrap = self._local.kafka_bootstrap
        names = [KafkaPartition(self._source, number) for number in range(PARTITIONS)]
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=self._group, enable_auto_commit=False,
            auto_offset_reset="earliest", isolation_level="read_committed", max_poll_records=AT_ONCE,
        )  # fmt: skip
        # The transactional id comes first: it ends what the last worker left open, offsets too.
        async with transactor(self._kind, bootstrap, f"worker-{self._kind}") as producer:
            await consumer.start()
            try:
                consumer.assign(names)
                begun = 0
                places = {name: await consumer.position(name) for name in names}
                while sum(places.values()) < PARTITIONS * RECORDS:
                    batch = await consumer.getmany(timeout_ms=100)
                    await producer.begin()
                    begun += 1
                    ends = dict(places)
                    for name, records in batch.items():
                        for record in records:
                            await producer.send(self._target, name.partition, record.value)
                            ends[name] = record.offset + 1
                    offsets = {(name.topic, name.partition): offset for name, offset in ends.items()}
                    await producer.send_offsets(self._group, offsets)
                    if begun == die_after:
                        return
                    if begun % 2:
                        await producer.commit()
                        places = ends
                    else:
                        await producer.abort()
                        for name, offset in places.items():
                            consumer.seek(name, offset)
            finally:
                await consumer.stop()

    async def check(self) -> None:
        expected = [self.values(partition) for partition in range(PARTITIONS)]
        await shows(self._local.kafka_bootstrap, self._target, expected)


@pytest.mark.parametrize("kind", KINDS)
async def test_each_record_is_processed_once(local: LocalCluster, kind: str) -> None:
    """KIP-98, KIP-447: over aborts, and over a worker that ends within a transaction."""
    worker = Worker(local, kind)
    await worker.prepare()
    await worker.work(die_after=3)
    await worker.work()
    await worker.check()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_fenced_twin_commits_no_offsets(local: LocalCluster, kind: str) -> None:
    group, topic = f"fenced-{kind}", f"fenced-{kind}"
    async with Admin(local.bootstrap) as admin:
        await admin.create_topic(topic, partitions=1, replication_factor=3)
    async with transactor(kind, local.kafka_bootstrap, group) as first:
        await first.begin()
        await first.send(topic, 0, b"first")
        async with transactor(kind, local.kafka_bootstrap, group) as second:
            with pytest.raises(Fenced):
                await first.send_offsets(group, {(topic, 0): 5})
                await first.commit()
            await second.begin()
            await second.send_offsets(group, {(topic, 0): 1})
            await second.commit()
    async with Admin(local.bootstrap) as admin:
        committed = await admin.group_offsets(group)
    assert [each.offset for each in committed.values()] == [1]
