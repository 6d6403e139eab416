"""A regular close commits all records that were handed out and processed, in any task that ran the get
calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from strandline.client.reading.records import ConsumerRecord, FetchedBatch
from strandline.consumer.consumer import Consumer
from strandline.ids import TopicPartition
from strandline.records import encode_values, validate
from strandline.vocabulary.groups import OffsetCommit
from tests.consumer.brokers import Brokers
from tests.strandline.client.network import FastClock, memory_host

A = TopicPartition("t", 0)
RECORDS = 3


class Closing:
    """A consumer that stands at the beginning of RECORDS records, and what it commits in the end."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, int] = {}
        brokers = Brokers()
        brokers.answers["OffsetCommit"] = self._commit
        brokers.answers["OffsetFetch"] = lambda _: {}
        self.consumer = Consumer("broker1:9092", host=memory_host(brokers, FastClock()), group_id="g")

    def _commit(self, request: OffsetCommit) -> Any:
        self.committed |= {name: entry.offset for name, entry in request.offsets.items()}
        return dict.fromkeys(request.offsets)

    async def start(self) -> Consumer:
        await self.consumer.start()
        positions = self.consumer._positions
        positions.add([A])
        positions.seek(A, 0)
        data = encode_values([b"v"] * RECORDS, 0)
        (header,) = validate(data)
        positions.buffer(A, FetchedBatch(A, header, data, 0), header.size, header.next_offset)
        return self.consumer


async def with_a_timeout(consumer: Consumer) -> ConsumerRecord:
    return await asyncio.wait_for(consumer.getone(), 60)


async def as_a_task(consumer: Consumer) -> ConsumerRecord:
    async with asyncio.TaskGroup() as tasks:
        return await tasks.create_task(consumer.getone())


async def the_next_one(consumer: Consumer) -> ConsumerRecord:
    return await asyncio.wait_for(anext(consumer), 60)


async def in_a_function(consumer: Consumer) -> ConsumerRecord:
    async def ask() -> ConsumerRecord:
        return await consumer.getone()

    return await asyncio.wait_for(ask(), 60)


@pytest.mark.parametrize("ask", [with_a_timeout, as_a_task, the_next_one, in_a_function])
@pytest.mark.parametrize("records", range(1, RECORDS + 1))
async def test_the_caller_closes_in_peace_though_another_task_ran_its_calls(ask: Any, records: int) -> None:
    """`asyncio.wait_for` runs what it waits for in a task of its own (Python 3.11)."""
    closing = Closing()
    consumer = await closing.start()
    for _ in range(records):
        _ = await ask(consumer)
    await consumer.stop()
    assert closing.committed == {A: records}


async def test_a_commit_on_the_way_does_not_cost_the_last_record() -> None:
    closing = Closing()
    consumer = await closing.start()
    for offset in range(RECORDS):
        assert (await consumer.getone()).offset == offset
        if offset == 0:
            await consumer.commit()
    await consumer.stop()
    assert closing.committed == {A: RECORDS}


@pytest.mark.parametrize("fails", [False, True])
async def test_a_reader_that_has_ended_is_asked_how(fails: bool) -> None:
    """Another task closes after it: what the reader had in hand is done if the reader ended in peace."""
    closing = Closing()
    consumer = await closing.start()

    async def read() -> None:
        async for record in consumer:
            if record.offset == 1:
                if fails:
                    raise LookupError("the handler failed")
                return

    reader = asyncio.get_running_loop().create_task(read())
    _ = await asyncio.wait([reader])
    await consumer.stop()
    assert closing.committed == {A: 1 if fails else 2}


async def test_a_cancelled_reader_is_not_done() -> None:
    closing = Closing()
    consumer = await closing.start()
    handling = asyncio.Event()

    async def read() -> None:
        _ = await asyncio.wait_for(consumer.getone(), 60)
        handling.set()
        await asyncio.Event().wait()

    reader = asyncio.get_running_loop().create_task(read())
    await handling.wait()
    reader.cancel()
    _ = await asyncio.wait([reader])
    await consumer.stop()
    assert closing.committed == {A: 0}


async def test_the_second_reader_of_a_batch_counts_and_not_the_first_one() -> None:
    """A supervisor starts another reader in the middle of a batch, after the first one failed."""
    closing = Closing()
    consumer = await closing.start()

    async def read(records: int, *, fails: bool) -> None:
        for _ in range(records):
            _ = await consumer.getone()
        if fails:
            raise LookupError("the handler failed")

    for records, fails in ((1, True), (2, False)):
        reader = asyncio.get_running_loop().create_task(read(records, fails=fails))
        _ = await asyncio.wait([reader])
    await consumer.stop()
    assert closing.committed == {A: 3}


async def test_stops_of_several_tasks_are_one() -> None:
    """The later ones wait for the first, and raise nothing."""
    closing = Closing()
    consumer = await closing.start()
    for _ in range(RECORDS):
        _ = await consumer.getone()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(RECORDS):
            tasks.create_task(consumer.stop())
    assert closing.committed == {A: RECORDS - 1}, "no task that stops it is the reader"


async def test_a_reader_that_stops_while_another_task_stops_it_is_done() -> None:
    """What it holds is processed, and committed."""
    closing = Closing()
    consumer = await closing.start()
    _ = await consumer.getone()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(consumer.stop())
        await asyncio.sleep(0)
        await consumer.stop()
    assert closing.committed == {A: 1}
