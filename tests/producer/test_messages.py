"""Which batches a producer puts into one message, and when it writes the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from strandline import BatchMetadata, Producer
from strandline.errors import CorruptMessage, InvalidRequest, OutcomeUnknown, StrandlineError
from strandline.ports import Method, Request, Response, Stream
from strandline.producer.core.partitioner import partition_for
from strandline.producer.sender import GATHER_S_MAX, SECOND_BYTES_MIN
from strandline.records import HEADER_BYTES, encode_values
from strandline.simulation.engine.loop import SimulatedLoop
from strandline.vocabulary.log import ProduceEntry, ProduceResult
from tests.strandline.client.network import Network, answering, memory_host, metadata
from tests.virtual_time import clock_of, on_virtual_time
from tests.waiting import DEADLINE_S

PARTITIONS = 4
"""Without idempotence, each has one batch in flight."""
SMALL = encode_values([b"value"], 0)


class Wire:
    """A produce stream in memory, whose messages the test answers."""

    def __init__(self) -> None:
        self.written: list[list[int]] = []
        """The partitions of each message."""
        self._unanswered: list[Sequence[ProduceEntry]] = []
        self._results: asyncio.Queue[Sequence[ProduceResult] | StrandlineError] = asyncio.Queue()
        self._wrote = asyncio.Event()

    def end(self) -> None:
        """The connection breaks."""
        self._results.put_nowait(OutcomeUnknown("the connection broke"))

    def answer(self, throttle_ms: int = 0) -> None:
        """Answers the oldest message."""
        ids = [each.correlation_id for each in self._unanswered.pop(0)]
        self._results.put_nowait([ProduceResult(each, None, 7, throttle_ms=throttle_ms) for each in ids])

    async def has(self, messages: int) -> None:
        """Returns once this number of messages is written."""
        while len(self.written) < messages:
            self._wrote.clear()
            await self._wrote.wait()

    async def write(self, entries: Sequence[ProduceEntry]) -> None:
        self.written.append([each.name.partition for each in entries])
        self._unanswered.append(entries)
        self._wrote.set()

    async def read(self) -> Sequence[ProduceResult]:
        match await self._results.get():
            case StrandlineError() as error:
                raise error
            case results:
                return results

    async def finish(self) -> None:
        """Nothing is buffered."""

    def close(self) -> None:
        """Nothing is kept."""


class Leader(Network):
    """Broker 1 leads everything. Each stream is `wire`, or the test's next one."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers = {"broker1:9092": answering(metadata(*[(1, 1)] * PARTITIONS))}
        self.wire = Wire()

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        wire: Any = self.wire
        stream: Stream[Request, Response] = wire
        return stream


def producer_of(network: Network, loop: SimulatedLoop, **settings: Any) -> Producer:
    """Not started yet."""
    host = memory_host(network, clock_of(loop))
    return Producer("broker1:9092", host=host, enable_idempotence=False, **settings)


async def failing() -> None:
    raise CorruptMessage("a task failed")


@asynccontextmanager
async def one_message_unanswered(loop: SimulatedLoop) -> AsyncIterator[tuple[Producer, Leader]]:
    """A producer that has written one batch, and the leader that has it."""
    network = Leader()
    async with producer_of(network, loop) as producer:
        _ = await send(producer, 0, SMALL)
        await network.wire.has(1)
        yield producer, network


async def send(producer: Producer, partition: int, batch: bytes) -> asyncio.Future[BatchMetadata]:
    return await producer.send_batch("t", partition, batch)


def of_size(size: int) -> bytes:
    """A batch of a little more than this many bytes."""
    return encode_values([bytes(size - HEADER_BYTES)], 0)


@on_virtual_time
async def test_batches_gather_while_a_message_is_unanswered(loop: SimulatedLoop) -> None:
    async with one_message_unanswered(loop) as (producer, network):
        wire = network.wire
        sent = [await send(producer, number, SMALL) for number in (1, 2, 3)]
        wire.answer()
        await wire.has(2)
        wire.answer()
        assert [(await each).partition for each in sent] == [1, 2, 3]
        assert wire.written == [[0], [1, 2, 3]]


@on_virtual_time
async def test_nothing_of_a_call_is_sent_if_one_of_its_records_is_refused(loop: SimulatedLoop) -> None:
    """The caller gets an error, and no future that would say what was appended."""
    keys = [
        next(key for key in map(b"%d".__mod__, count()) if partition_for(key, PARTITIONS) == number)
        for number in (1, 2)
    ]
    values: list[Any] = [b"value", "text"]
    async with one_message_unanswered(loop) as (producer, network):
        wire = network.wire
        with pytest.raises(TypeError, match="record's value"):
            _ = await producer.send_many("t", values, keys=keys)
        wire.answer()
        await producer.flush()
        assert wire.written == [[0]]


@on_virtual_time
async def test_a_message_that_is_half_full_does_not_wait_for_an_answer(loop: SimulatedLoop) -> None:
    """So the client and the brokers work at the same time, and not in turns."""
    async with one_message_unanswered(loop) as (producer, network):
        wire = network.wire
        half, began = of_size(SECOND_BYTES_MIN // 2), loop.time()
        sent = [await send(producer, number, half) for number in (1, 2)]
        await wire.has(2)
        assert loop.time() - began < GATHER_S_MAX
        assert wire.written == [[0], [1, 2]]
        wire.answer()
        wire.answer()
        assert [(await each).partition for each in sent] == [1, 2]


@on_virtual_time
async def test_a_third_message_waits_for_an_answer_however_large_it_is(loop: SimulatedLoop) -> None:
    async with one_message_unanswered(loop) as (producer, network):
        wire = network.wire
        large = of_size(SECOND_BYTES_MIN)
        first = await send(producer, 1, large)
        await wire.has(2)
        began = loop.time()
        second = await send(producer, 2, large)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(GATHER_S_MAX / 2):
                await wire.has(3)
        wire.answer()
        await wire.has(3)
        assert loop.time() - began < GATHER_S_MAX
        wire.answer()
        wire.answer()
        assert [(await each).partition for each in (first, second)] == [1, 2]


@on_virtual_time
async def test_a_message_of_a_broken_stream_delays_none_of_the_next_one(loop: SimulatedLoop) -> None:
    """Nor does it count as under way."""
    async with one_message_unanswered(loop) as (producer, network):
        assert producer.metrics()["requests-in-flight"] == 1
        broken, network.wire = network.wire, Wire()
        broken.end()
        await network.wire.has(1)
        assert producer.metrics()["requests-in-flight"] == 1
        began = loop.time()
        sent = await send(producer, 1, of_size(SECOND_BYTES_MIN))
        await network.wire.has(2)
        assert loop.time() - began < GATHER_S_MAX
        network.wire.answer()
        network.wire.answer()
        assert (await sent).partition == 1
        assert producer.metrics()["requests-in-flight"] == 0


@on_virtual_time
async def test_a_client_over_its_quota_sends_no_message_ahead(loop: SimulatedLoop) -> None:
    """The broker would not read it, and leave it unanswered, for as long as the client has to wait."""
    async with one_message_unanswered(loop) as (producer, network):
        wire = network.wire
        wire.answer(throttle_ms=1)
        large = of_size(SECOND_BYTES_MIN)
        first = await send(producer, 1, large)
        await wire.has(2)
        second = await send(producer, 2, large)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100 * GATHER_S_MAX):
                await wire.has(3)
        wire.answer()
        await wire.has(3)
        wire.answer()
        assert [(await each).partition for each in (first, second)] == [1, 2]


async def refusal(producer: Producer) -> str:
    """Why a batch is not taken."""
    with pytest.raises((InvalidRequest, CorruptMessage)) as refused:
        _ = await send(producer, 0, SMALL)
    return refused.value.message


@on_virtual_time
async def test_a_batch_that_waits_for_room_ends_with_a_producer_that_fails(loop: SimulatedLoop) -> None:
    network = Leader()
    reason = ""
    with pytest.raises(CorruptMessage):
        async with (
            producer_of(network, loop, buffer_bytes=65_536) as producer,
            asyncio.timeout(DEADLINE_S),
            asyncio.TaskGroup() as tasks,
        ):
            _ = await send(producer, 0, of_size(65_536))
            waiting = tasks.create_task(refusal(producer))
            await network.wire.has(1)
            producer._scope.spawn(failing(), "one that fails")
            reason = await waiting
    assert reason == "a task failed"


@on_virtual_time
async def test_a_batch_that_waits_for_room_ends_with_the_producer(loop: SimulatedLoop) -> None:
    """What ends makes room: the batch must not go into it, where no sender would find it."""
    network = Leader()
    producer = producer_of(network, loop, buffer_bytes=65_536)
    await producer.start()
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        sent = await send(producer, 0, of_size(65_536))
        waiting = tasks.create_task(refusal(producer))
        await network.wire.has(1)
        await producer.stop(timeout_s=0)
        with pytest.raises(OutcomeUnknown):
            await sent
        assert "has been stopped" in await waiting
