"""Records sent by many tasks to a topic that the producer does not know yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from strandline import Producer
from strandline.errors import CorruptMessage, InvalidRequest, StrandlineError, UnknownTopicOrPartition
from strandline.simulation.engine.loop import SimulatedLoop
from strandline.vocabulary.log import MetadataAnswer, MetadataQuery
from strandline.vocabulary.metadata import ClusterMetadata
from tests.producer.test_messages import Leader, failing, producer_of
from tests.strandline.client.network import metadata
from tests.virtual_time import on_virtual_time
from tests.waiting import DEADLINE_S

KEY = b"key"
MISSING = MetadataAnswer(
    ClusterMetadata("c", (), None, ()), {"t": UnknownTopicOrPartition("topic 't' does not exist")}
)


class SlowMetadata(Leader):
    """Answers once the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers = {"broker1:9092": self._answer}
        self.answer: asyncio.Future[MetadataAnswer] = asyncio.get_running_loop().create_future()
        self.queries = 0

    async def _answer(self, _query: MetadataQuery) -> MetadataAnswer:
        self.queries += 1
        return await asyncio.shield(self.answer)


@asynccontextmanager
async def started(loop: SimulatedLoop) -> AsyncIterator[tuple[Producer, SlowMetadata]]:
    network = SlowMetadata()
    producer = producer_of(network, loop, linger_ms=5)
    await producer.start()
    try:
        yield producer, network
    finally:
        await producer.stop(timeout_s=0)


async def end(producer: Producer, *, partition: int | None = None) -> int | StrandlineError:
    """The offset of a record that is sent now, or the error of the call."""
    try:
        record = await producer.send("t", b"value", KEY, partition=partition)
    except StrandlineError as error:
        return error
    return (await record).offset


async def turns(count: int) -> None:
    """Lets the other tasks run this many times."""
    for _ in range(count):
        await asyncio.sleep(0)


@on_virtual_time
async def test_the_records_of_a_key_keep_the_order_of_the_calls(loop: SimulatedLoop) -> None:
    """CORRECTNESS W1: also those whose calls begin while the tasks of earlier ones have yet to continue."""
    async with started(loop) as (producer, network), asyncio.TaskGroup() as tasks:
        sent = [tasks.create_task(end(producer)) for _ in range(20)]
        await turns(5)
        network.answer.set_result(metadata((1, 1)))
        for _ in range(40):
            sent.append(tasks.create_task(end(producer)))
            await turns(1)
        await network.wire.has(1)
        network.wire.answer()
        assert [await each for each in sent] == list(range(7, 67))
        assert network.queries == 1


@on_virtual_time
async def test_calls_fail_together_and_the_next_one_asks_again(loop: SimulatedLoop) -> None:
    async with started(loop) as (producer, network), asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(end(producer)) for _ in range(10)]
        await turns(5)
        network.answer.set_result(MISSING)
        assert {type(await call) for call in calls} == {UnknownTopicOrPartition}
        measured = producer.metrics()
        assert measured["buffer-available-bytes"] == measured["buffer-total-bytes"]
        asked = network.queries
        network.answer = asyncio.get_running_loop().create_future()
        network.answer.set_result(metadata((1, 1)))
        again = tasks.create_task(end(producer))
        await network.wire.has(1)
        network.wire.answer()
        assert await again == 7
        assert network.queries == asked + 1


@on_virtual_time
async def test_a_cancelled_call_sends_nothing_and_delays_nobody(loop: SimulatedLoop) -> None:
    async with started(loop) as (producer, network), asyncio.TaskGroup() as tasks:
        first, second = (tasks.create_task(end(producer)) for _ in range(2))
        await turns(5)
        first.cancel()
        network.answer.set_result(metadata((1, 1)))
        await network.wire.has(1)
        network.wire.answer()
        assert await second == 7
        assert first.cancelled()


@on_virtual_time
async def test_a_record_that_is_refused_fails_its_own_call(loop: SimulatedLoop) -> None:
    async with started(loop) as (producer, network), asyncio.TaskGroup() as tasks:
        refused, sent = (tasks.create_task(end(producer, partition=number)) for number in (-1, 0))
        await turns(5)
        network.answer.set_result(metadata((1, 1)))
        assert isinstance(await refused, UnknownTopicOrPartition)
        await network.wire.has(1)
        network.wire.answer()
        assert await sent == 7


@on_virtual_time
async def test_calls_end_when_the_producer_stops(loop: SimulatedLoop) -> None:
    async with started(loop) as (producer, _network), asyncio.TaskGroup() as tasks:
        call = tasks.create_task(end(producer))
        await turns(5)
        await producer.stop(timeout_s=0)
        ended = await call
        assert isinstance(ended, InvalidRequest)
        assert "stopped before it knew topic 't'" in ended.message


@pytest.mark.parametrize("between", [None, *range(4)])
@on_virtual_time
async def test_calls_end_with_the_error_of_a_producer_that_fails(
    loop: SimulatedLoop, between: int | None
) -> None:
    """None: the task that would request the metadata is cancelled before it begins."""
    ended: int | StrandlineError | None = None
    with pytest.raises(CorruptMessage):
        async with (
            started(loop) as (producer, _network),
            asyncio.timeout(DEADLINE_S),
            asyncio.TaskGroup() as tasks,
        ):
            if between is None:
                producer._scope.spawn(failing(), "one that fails")
            call = tasks.create_task(end(producer))
            if between is not None:
                await turns(between)
                producer._scope.spawn(failing(), "one that fails")
            ended = await call
    assert isinstance(ended, InvalidRequest)  # a fatal one: nothing of it was sent
    assert "failed (a task failed) before it knew topic 't'" in ended.message
    measured = producer.metrics()
    assert measured["buffer-available-bytes"] == measured["buffer-total-bytes"]
