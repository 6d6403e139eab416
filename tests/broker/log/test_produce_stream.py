"""A produce stream whose client does not read its results is not read either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from strandline.adapters.rpc.request_times import RequestTimes
from strandline.broker.log.server import _ProduceStream
from strandline.broker.replicas.leadership import Produced
from strandline.ids import TopicPartition
from strandline.rpc import log_pb2
from tests.broker.support.replicas import CLOCK, settings
from tests.waiting import eventually

IN_FLIGHT_MAX = 5


class Handlers:
    """Takes everything at once."""

    def __init__(self) -> None:
        self.taken = 0

    async def unsure(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        return frozenset()

    def produce(self, *request: Any, **_: Any) -> None:
        done = request[-1]
        self.taken += 1
        done(Produced(self.taken, 0))


class Unread:
    """A context whose client reads nothing until it does."""

    def __init__(self) -> None:
        self.read = asyncio.Event()
        self.results = 0

    async def write(self, response: log_pb2.ProduceResponse) -> None:
        await self.read.wait()
        self.results += len(response.results)


async def entries(count: int) -> AsyncIterator[log_pb2.ProduceRequest]:
    for number in range(count):
        yield log_pb2.ProduceRequest(entries=[log_pb2.PartitionRecords(correlation_id=number, acks=1)])
        await asyncio.sleep(0)


async def test_results_that_nobody_reads_hold_up_what_comes_behind_them() -> None:
    """An entry was done with its result, read or not, and results piled up."""
    handlers: Any = Handlers()
    context: Any = Unread()
    stream = _ProduceStream(
        handlers, settings(produce_entries_in_flight_max=IN_FLIGHT_MAX), RequestTimes(CLOCK), CLOCK, None
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(stream.read(entries(1_000)))
        tasks.create_task(stream.write(context))
        for _ in range(100):
            await asyncio.sleep(0)
        assert handlers.taken == IN_FLIGHT_MAX
        context.read.set()
        await eventually(lambda: context.results == 1_000)
