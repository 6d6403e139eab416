"""Serves fetch streams: bounds the requests in flight of each, and the memory of all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from strandline.adapters.rpc.request_times import RequestTimes
from strandline.broker.log.fetch_budget import FetchBudget
from strandline.broker.log.guarded import GuardedLog
from strandline.broker.log.handlers import answer_bytes
from strandline.config.services import BrokerSettings
from strandline.ports import Caller, Reply
from strandline.vocabulary.log import FetchAnswer, FetchRequest


class FetchStreams:
    """All fetch streams of one broker."""

    def __init__(self, log: GuardedLog, settings: BrokerSettings, times: RequestTimes) -> None:
        self._log = log
        self._in_flight_max = settings.fetches_in_flight_max
        self._times = times
        self._answers = FetchBudget(
            of_one=settings.fetch_connection_bytes_max, of_all=settings.fetch_bytes_max
        )
        """Bytes that were read and not yet written, by connection."""
        self._asked = FetchBudget(
            of_one=settings.fetch_connection_partitions_max, of_all=settings.fetch_partitions_max
        )
        """Partitions in unanswered requests, by connection."""

    async def serve(
        self, requests: AsyncIterator[FetchRequest], reply: Reply[FetchAnswer], caller: Caller
    ) -> None:
        """Serves one stream. Each request is answered as soon as there is something to answer."""
        times_ms = self._times.of("Fetch")
        slots = asyncio.Semaphore(self._in_flight_max)
        writing = asyncio.Lock()

        async def answer(request: FetchRequest, arrived: float, asked: int) -> None:
            try:
                await self._answer(request, writing, reply, caller)
                times_ms.observe(self._times.since_ms(arrived))
            finally:
                self._asked.give_back(caller.connection, asked)
                slots.release()

        async with asyncio.TaskGroup() as tasks:
            async for request in requests:
                arrived = self._times.now()
                await slots.acquire()
                asked = await self._asked.take(caller.connection, len(request.partitions))
                tasks.create_task(answer(request, arrived, asked))

    async def _answer(
        self, request: FetchRequest, writing: asyncio.Lock, reply: Reply[FetchAnswer], caller: Caller
    ) -> None:
        bytes_max = request.bytes_max
        await self._log.fetchable(
            request.partitions,
            caller,
            wait_ms=request.wait_ms,
            bytes_min=request.bytes_min,
            bytes_max=bytes_max,
        )
        # While a client does not read its answers, at most one answer of each stream is read from the disk.
        async with writing, self._answers.taken(caller.connection, answer_bytes(bytes_max)) as has:
            found = await self._log.read(request.partitions, bytes_max, caller)
            has(sum(len(fetched.records) for fetched in found))  # the first batch may be larger
            await reply(FetchAnswer(request.correlation_id, found))
