"""Serves fetch streams: bounds the requests in flight of each, and the memory of all, and delays answers to
clients that are over their quota."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from math import ceil

from strandline.adapters.rpc.request_times import RequestTimes
from strandline.broker.log.fetch_budget import FetchBudget
from strandline.broker.log.reads import Reads, answer_bytes
from strandline.config.services.broker import BrokerSettings
from strandline.ports import Caller, Clock, Reply
from strandline.security.quotas.bill import Bill, ClientQuotas
from strandline.security.quotas.model import Quota
from strandline.serving.charging import charged_time
from strandline.turns import Turns
from strandline.vocabulary.log import FetchAnswer, Fetched, FetchRequest


class FetchStreams:
    """All fetch streams of one broker."""

    def __init__(
        self,
        reads: Reads,
        settings: BrokerSettings,
        times: RequestTimes,
        clock: Clock,
        quotas: ClientQuotas,
    ) -> None:
        self._reads = reads
        self._clock = clock
        self._quotas = quotas
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
                bill = self._quotas.of(caller)
                work = self._answer(request, writing, reply, caller, bill)
                await (work if bill is None else charged_time(work, bill, Turns(self._clock.monotonic)))
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
        self,
        request: FetchRequest,
        writing: asyncio.Lock,
        reply: Reply[FetchAnswer],
        caller: Caller,
        bill: Bill | None,
    ) -> None:
        bytes_max, throttle_ms = request.bytes_max, 0
        await self._reads.fetchable(
            self._reads.fixed(request.partitions),
            caller,
            wait_ms=request.wait_ms,
            bytes_min=request.bytes_min,
            bytes_max=bytes_max,
        )
        if bill is not None:
            bytes_max = bill.fetchable(bytes_max)
            throttle_ms = await self._paid(bill)
        # While a client does not read its answers, at most one answer of each stream is read from the disk.
        async with writing, self._answers.taken(caller.connection, answer_bytes(bytes_max)) as has:
            found = await self._found(request, bytes_max, caller, bill)
            has(sum(len(fetched.records) for fetched in found))  # the first batch may be larger
            await reply(FetchAnswer(request.correlation_id, found, throttle_ms))

    async def _found(
        self, request: FetchRequest, bytes_max: int, caller: Caller, bill: Bill | None
    ) -> list[Fetched]:
        """No records if others with the same quota have used it up since the client had paid, also while
        these were read: the client asks and waits again."""
        if bill is None:
            return await self._reads.read(request.partitions, bytes_max, caller)
        if not bill.owed(Quota.CONSUMER_BYTE_RATE):
            found = await self._reads.read(request.partitions, bytes_max, caller)
            if not bill.owed(Quota.CONSUMER_BYTE_RATE):
                bill.charge(Quota.CONSUMER_BYTE_RATE, sum(len(fetched.records) for fetched in found))
                return found
        return await self._reads.without_records(request.partitions, caller)

    async def _paid(self, bill: Bill) -> int:
        """Returns once the client has paid for what it used, by how many milliseconds that delayed it."""
        owed_s = max(bill.owed(Quota.CONSUMER_BYTE_RATE), bill.owed(Quota.REQUEST_PERCENTAGE))
        if owed_s:
            await self._clock.sleep(owed_s)
        return ceil(owed_s * 1000)
