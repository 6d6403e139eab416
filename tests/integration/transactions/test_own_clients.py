"""Transactions of strandline's own clients: all of one is seen, or nothing (KIP-98, KIP-890)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from strandline import Consumer, Producer, TopicPartition
from strandline.errors import (
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    StrandlineError,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from strandline.pipeline.core.options import Selection
from strandline.pipeline.core.ranges import OffsetRange
from strandline.pipeline.reading.cluster_facts import ClusterFacts
from strandline.pipeline.reading.ranges import RangeReader
from strandline.producer.transactions import Transaction
from strandline.testing import SimulatedCluster
from tests.integration.support.harness import FAULT_SETTINGS
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

SETTINGS = {**FAULT_SETTINGS, "transaction_state_topic_partitions": 3}
A, B, IN = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("input", 0)
ID = "payments"
QUIET_MS = 1_000
"""Nothing more comes after this time."""

pytestmark = pytest.mark.strandline(seed=1, broker_settings=SETTINGS)


@asynccontextmanager
async def producing(cluster: SimulatedCluster, **settings: Any) -> AsyncIterator[Producer]:
    given = {"transactional_id": ID, **settings}
    async with cluster.producer(**given) as producer:
        yield producer


@asynccontextmanager
async def reading(
    cluster: SimulatedCluster, *names: TopicPartition, **settings: Any
) -> AsyncIterator[Consumer]:
    given = {"isolation_level": "read_committed", "offset_reset": "earliest", **settings}
    async with cluster.consumer(**given) as consumer:
        consumer.assign(names or (A, B))
        yield consumer


async def values(consumer: Consumer) -> list[bytes | None]:
    """All that is read until nothing comes any longer, by partition."""
    found: dict[TopicPartition, list[bytes | None]] = {}
    while taken := await consumer.getmany(timeout_ms=QUIET_MS):
        for name, records in taken.items():
            found.setdefault(name, []).extend(record.value for record in records)
    return [value for name in sorted(found) for value in found[name]]


async def decided(consumer: Consumer, name: TopicPartition, end: int) -> bool:
    """Whether all transactions below this offset have ended."""
    return (await consumer.end_offsets([name]))[name] >= end


async def topics(cluster: SimulatedCluster) -> None:
    await cluster.create_topic("orders", partitions=2)
    await cluster.create_topic("input", partitions=1)


@on_virtual_time
async def test_a_transaction_is_seen_as_a_whole_or_not_at_all(cluster: SimulatedCluster) -> None:
    """Over several partitions, with all kinds of calls; readers of all records see each of them."""
    await topics(cluster)
    async with producing(cluster) as producer, reading(cluster) as consumer:
        async with producer.transaction():
            _ = await producer.send("orders", b"1", partition=0)
            _ = await producer.send_many("orders", [b"2", b"3"], partition=1)
            await producer.flush()
            assert await values(consumer) == []
        assert await values(consumer) == [b"1", b"2", b"3"]
        with pytest.raises(RuntimeError, match="the application's"):
            async with producer.transaction():
                await producer.send_and_wait("orders", b"4", partition=0)
                raise RuntimeError("the application's")
        async with producer.transaction() as transaction:
            await producer.send_and_wait("orders", b"5", partition=0)
            await transaction.abort()
        async with producer.transaction():
            _ = await producer.send("orders", b"6", partition=0)
        assert await values(consumer) == [b"6"]
        async with reading(cluster, isolation_level="read_uncommitted") as every:
            assert await values(every) == [b"1", b"4", b"5", b"6", b"2", b"3"]


@on_virtual_time
async def test_a_reader_of_committed_records_goes_on_behind_markers_and_aborted_records(
    cluster: SimulatedCluster,
) -> None:
    """Its position is behind them, and its lag is 0: as in Kafka."""
    await topics(cluster)
    async with producing(cluster) as producer, reading(cluster, A) as consumer:
        async with producer.transaction():
            _ = await producer.send("orders", b"1", partition=0)
        async with producer.transaction() as transaction:
            _ = await producer.send_many("orders", [b"2", b"3"], partition=0)
            await transaction.abort()
        assert await values(consumer) == [b"1"]
        ends = await consumer.end_offsets([A])
        assert (await consumer.position(A), consumer.lag(A), ends[A]) == (5, 0, 5)
        async with producer.transaction():
            await producer.send_and_wait("orders", b"4", partition=0)
            assert await values(consumer) == []
            assert (await consumer.position(A), consumer.lag(A)) == (5, 0)
            assert (await consumer.end_offsets([A]), consumer.highwater(A)) == ({A: 5}, 6)
            await consumer.seek_to_end(A)
            assert await consumer.position(A) == 5
        assert await values(consumer) == [b"4"]


@on_virtual_time
async def test_batches_of_an_aborted_transaction_reach_no_get_call(cluster: SimulatedCluster) -> None:
    await topics(cluster)
    async with producing(cluster) as producer, reading(cluster, A) as consumer:
        async with producer.transaction() as transaction:
            await producer.send_and_wait("orders", b"1", partition=0)
            await transaction.abort()
        async with producer.transaction():
            _ = await producer.send("orders", b"2", partition=0)
        record = await consumer.getone()
        assert (record.offset, record.value) == (2, b"2")
        await consumer.seek_to_beginning(A)
        (batch,) = await consumer.getbatches(timeout_ms=QUIET_MS)
        assert [each.value for each in batch.records()] == [b"2"]
        assert await consumer.getbatches(timeout_ms=QUIET_MS) == []
        assert await consumer.position(A) == 4


@on_virtual_time
async def test_a_twin_fences_the_producer_before_it(cluster: SimulatedCluster) -> None:
    """And aborts its transaction. The fenced one learns that at the end, and is over."""
    await topics(cluster)
    async with producing(cluster) as old, reading(cluster) as consumer:
        with pytest.raises(ProducerFenced):
            async with old.transaction():
                await old.send_and_wait("orders", b"old", partition=0)
                async with producing(cluster) as twin, twin.transaction():
                    _ = await twin.send("orders", b"new", partition=0)
        with pytest.raises(ProducerFenced):
            async with old.transaction():
                pass
        assert isinstance(old.failure, ProducerFenced)
        assert await values(consumer) == [b"new"]


@on_virtual_time
async def test_a_fenced_producers_send_fails_and_the_block_says_why(cluster: SimulatedCluster) -> None:
    await topics(cluster)
    async with producing(cluster) as old:
        with pytest.raises(ProducerFenced):
            async with old.transaction(), producing(cluster):
                with pytest.raises(TransactionAbortable, match="another producer has its id"):
                    await old.send_and_wait("orders", b"old", partition=0)


Step = Callable[[Producer, Transaction], Awaitable[object]]
AFTER_TIMEOUT: Final[dict[str, Step]] = {
    "commit": lambda producer, transaction: asyncio.sleep(0),
    "record": lambda producer, transaction: producer.send_and_wait("orders", b"later", partition=0),
    "many": lambda producer, transaction: producer.send_many("orders", [b"later"], partition=0),
    "offsets": lambda producer, transaction: transaction.send_offsets({IN: 1}, "g"),
}


@pytest.mark.parametrize("step", AFTER_TIMEOUT)
@on_virtual_time
async def test_a_transaction_that_takes_too_long_is_aborted_and_the_next_one_begins(
    cluster: SimulatedCluster, step: str
) -> None:
    """KIP-890: the abort gives the producer its next epoch. Each call says what the reason is."""
    await topics(cluster)
    async with producing(cluster, transaction_timeout_ms=1_000) as producer, reading(cluster) as consumer:
        with pytest.raises(TransactionAbortable, match="transaction_timeout_ms=1000"):
            async with producer.transaction() as transaction:
                await producer.send_and_wait("orders", b"late", partition=0)
                await eventually(lambda: decided(consumer, A, 2))
                await AFTER_TIMEOUT[step](producer, transaction)
        assert producer.failure is None
        async with producer.transaction():
            _ = await producer.send("orders", b"again", partition=0)
        assert await values(consumer) == [b"again"]


@on_virtual_time
async def test_offsets_are_committed_with_the_transaction(cluster: SimulatedCluster) -> None:
    """KIP-447: a group's offset is that of before while the transaction is open, and a fetch of it waits."""
    await topics(cluster)
    async with (
        producing(cluster) as producer,
        reading(cluster, IN, group_id="g", enable_auto_commit=False) as consumer,
    ):
        async with producer.transaction() as transaction:
            _ = await producer.send("orders", b"1", partition=0)
            await transaction.send_offsets({IN: 3}, consumer.group_metadata())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(QUIET_MS / 1000):
                    await consumer.committed(IN)
            await transaction.abort()
        assert await consumer.committed(IN) is None
        async with producer.transaction() as transaction:
            await transaction.send_offsets({IN: (4, "of the group")}, "g")
        found = await consumer.committed(IN)
        assert found is not None and (found.offset, found.metadata) == (4, "of the group")


@on_virtual_time
async def test_offsets_of_a_partition_that_is_not_there_are_refused_soon(cluster: SimulatedCluster) -> None:
    """Long before the timeout of the transaction, and by the partition's name."""
    await topics(cluster)
    async with producing(cluster, transaction_timeout_ms=60_000) as producer:
        began = asyncio.get_running_loop().time()
        with pytest.raises(UnknownTopicOrPartition, match="no nope-0"):
            async with producer.transaction() as transaction:
                await transaction.send_offsets({TopicPartition("nope", 0): 1}, "g")
        assert asyncio.get_running_loop().time() - began < 10
        async with producer.transaction():
            await producer.send_and_wait("orders", b"next", partition=0)


class Interrupted(Exception):
    """The copying process ends in the middle of a transaction."""


class Copies:
    """Copies the input in transactions of two records. Brokers die one after the other within transactions,
    and so does the process."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.killed: int | None = None
        self.transactions = 0

    async def run(self) -> None:
        """One life of the process; returns once all is copied."""
        async with (
            producing(self.cluster) as producer,
            reading(
                self.cluster, IN, group_id="copy", enable_auto_commit=False, poll_records_max=2
            ) as consumer,
        ):
            while taken := await consumer.getmany(timeout_ms=QUIET_MS):
                records = taken[IN]
                self.transactions += 1
                async with producer.transaction() as transaction:
                    for record in records:
                        _ = await producer.send("orders", record.value, partition=record.offset % 2)
                    await transaction.send_offsets({IN: records[-1].offset + 1}, consumer.group_metadata())
                    if self.transactions % 3 == 0:
                        await self._kill_the_next()
                    if self.transactions % 4 == 0:
                        await producer.flush()
                        raise Interrupted

    async def _kill_the_next(self) -> None:
        ids = self.cluster.broker_ids
        following = ids[0] if self.killed is None else ids[(ids.index(self.killed) + 1) % len(ids)]
        if self.killed is not None:
            self.cluster.start(self.killed)
            await self.cluster.run_until(lambda: len(self.cluster.in_sync("orders")) == len(ids))
        self.killed = following
        self.cluster.kill(following)


@on_virtual_time
async def test_exactly_once_over_brokers_and_processes_that_die(cluster: SimulatedCluster) -> None:
    """Each record of the input comes out once: the output and the group's offset are of one transaction."""
    await topics(cluster)
    count = 40
    async with cluster.producer() as feeder:
        _ = await feeder.send_many("input", [b"%d" % number for number in range(count)], partition=0)
    copies = Copies(cluster)
    while True:
        try:
            await copies.run()
        except Interrupted:
            continue
        break
    assert copies.transactions > count / 2
    async with reading(cluster) as consumer:
        found = await values(consumer)
    assert found == [b"%d" % number for first in (0, 1) for number in range(first, count, 2)]


@on_virtual_time
async def test_a_caller_that_is_cancelled_leaves_no_transaction_behind(cluster: SimulatedCluster) -> None:
    """It does not wait for the abort; the next transaction does."""
    await topics(cluster)
    async with producing(cluster) as producer, reading(cluster) as consumer:

        async def one() -> None:
            async with producer.transaction():
                await producer.send_and_wait("orders", b"1", partition=0)
                await asyncio.Event().wait()

        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(one())
            async with reading(cluster, A, isolation_level="read_uncommitted") as every:
                await every.getone()
            task.cancel()
        async with producer.transaction():
            _ = await producer.send("orders", b"2", partition=0)
        assert await values(consumer) == [b"2"]


@on_virtual_time
async def test_what_cannot_be_done_is_refused_before_anything_is_sent(cluster: SimulatedCluster) -> None:
    await topics(cluster)
    async with cluster.producer() as plain:
        with pytest.raises(InvalidRequest, match="transactional_id"):
            plain.transaction()
    with pytest.raises(InvalidTransactionTimeout):
        async with producing(cluster, transaction_timeout_ms=10_000_000):
            pass
    async with producing(cluster) as producer:
        with pytest.raises(InvalidTransactionState, match="no transaction"):
            _ = await producer.send("orders", b"1")
        async with producer.transaction():
            with pytest.raises(InvalidTransactionState, match="before the next one"):
                async with producer.transaction():
                    pass
        with pytest.raises(StrandlineError):
            async with producer.transaction() as transaction:
                await transaction.send_offsets({IN: 1}, "")
        async with producer.transaction() as transaction:
            await transaction.send_offsets({}, "g")


@on_virtual_time
async def test_a_query_ends_where_its_isolation_level_says(cluster: SimulatedCluster) -> None:
    """The ranges of Spark's source end behind markers and aborted records, and before open transactions."""
    await topics(cluster)
    expected = {"read_committed": (4, [b"1"]), "read_uncommitted": (5, [b"1", b"2", b"3"])}
    async with producing(cluster) as producer:
        async with producer.transaction():
            _ = await producer.send("orders", b"1", partition=0)
        async with producer.transaction() as transaction:
            await producer.send_and_wait("orders", b"2", partition=0)
            await transaction.abort()
        async with producer.transaction():
            await producer.send_and_wait("orders", b"3", partition=0)
            for level, (end, values) in expected.items():
                assert await queried(cluster, level) == (end, values)


async def queried(cluster: SimulatedCluster, level: str) -> tuple[int, list[bytes | None]]:
    """Where a query of partition A ends now, and the values that it reads."""
    stable = level == "read_committed"
    async with ClusterFacts(cluster.bootstrap, stable=stable, host=cluster.host) as facts:
        snapshot = await facts.snapshot(Selection(partitions=(A,)))
    end = snapshot.bounds[A].end
    found: list[bytes | None] = []
    async with RangeReader(cluster.bootstrap, isolation_level=level, host=cluster.host) as reader:
        wanted = OffsetRange(*A, 0, end, snapshot.ids[A.topic])
        await reader.begin(wanted, timeout_s=10, fail_on_data_loss=True)
        while chunk := await reader.next():
            found += [value for batch in chunk for value in batch.columns().values]
    return end, found
