"""A producer and a leader that hangs: its connection stays open, and nothing answers on it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from strandline import Producer
from strandline.client.broker_stream import answer_limit_s
from strandline.config.producer import ProducerSettings
from strandline.ports import Method, Request, Response, Stream
from strandline.producer.sender import DOUBT_S
from strandline.vocabulary.log import MetadataAnswer, MetadataQuery, ProduceEntry, ProduceResult
from tests.strandline.client.network import FastClock, Network, memory_host, metadata


class Wire:
    """A produce stream in memory, of a broker that acknowledges every batch, or none."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self._results: asyncio.Queue[Sequence[ProduceResult]] = asyncio.Queue()

    async def write(self, entries: Sequence[ProduceEntry]) -> None:
        if self._answers:
            self._results.put_nowait([ProduceResult(each.correlation_id, None, 7) for each in entries])

    async def read(self) -> Sequence[ProduceResult]:
        return await self._results.get()

    async def finish(self) -> None:
        """Nothing is buffered."""

    def close(self) -> None:
        """Nothing is kept."""


class LeaderHangs(Network):
    """Broker 1 leads in epoch 1, and hangs. A broker that is asked for its successor names broker 2."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__()
        self.partitions = partitions
        self.sought: list[int] = []
        """The partitions whose successors were asked for, in this order."""
        self.brokers = {f"broker{broker}:9092": self._answer for broker in (1, 2, 3)}

    async def _answer(self, query: MetadataQuery) -> MetadataAnswer:
        self.sought += [wait.name.partition for wait in query.waits]
        return metadata(*[(2, 2) if query.waits else (1, 1)] * self.partitions)

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        wire: Any = Wire(answers=address == "broker2:9092")
        stream: Stream[Request, Response] = wire
        return stream


async def test_a_batch_without_an_answer_goes_to_the_successor_of_a_leader_that_hangs() -> None:
    """CORRECTNESS E19: the producer does not wait until it would give the request up, or the connection."""
    clock = FastClock()
    host = memory_host(LeaderHangs(), clock)
    async with Producer("broker3:9092", host=host, enable_idempotence=False) as producer:
        metadata = await producer.send_and_wait("t", b"value", partition=0)
        assert metadata.offset == 7
        assert DOUBT_S < clock.now < answer_limit_s(ProducerSettings()) / 2
        assert producer.metrics()["requests-in-flight"] == 0


async def test_successors_are_sought_in_the_order_of_the_batches() -> None:
    """Not in that of a set, which differs from process to process: a run of the simulation could not be
    repeated."""
    network = LeaderHangs(partitions=8)
    host = memory_host(network, FastClock())
    async with Producer("broker3:9092", host=host, enable_idempotence=False) as producer:
        sent = [await producer.send("t", b"value", partition=number) for number in range(8)]
        await producer.flush()
    assert [each.result().offset for each in sent] == [7] * 8
    assert network.sought[:8] == list(range(8))
