"""Serves one produce stream: bounds the entries in flight, and sends results in batches.

A stream whose client is over its quota is not read for a while: HTTP/2's flow control carries the pressure to
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Final, Protocol

from strandline.adapters.rpc.request_times import RequestTimes
from strandline.broker.core.replication.produce_ticket import ProduceOutcome
from strandline.broker.log.handlers import Handlers
from strandline.config.services.broker import BrokerSettings
from strandline.errors import StrandlineError, TransactionalIdAuthorizationFailed
from strandline.ids import TopicPartition
from strandline.ports import Caller, Clock, Reply
from strandline.records.header import in_transaction
from strandline.security.quotas.bill import Bill, ClientQuotas
from strandline.security.quotas.model import Quota
from strandline.security.rights import WRITE_TRANSACTIONAL_ID
from strandline.serving.charging import charged_time, paid
from strandline.tasks import Slices
from strandline.turns import Turns
from strandline.vocabulary.log import ProduceEntry, ProduceMessage, ProduceResult, Rights, Transactional

RESULTS_MAX: Final = 500
"""Results in one message of a produce stream: even with the longest error messages they fit
MESSAGE_BYTES_MAX."""


_BOTH: Final = (Quota.PRODUCER_BYTE_RATE, Quota.REQUEST_PERCENTAGE)

ProduceReply = Reply[Sequence[ProduceResult]]
_NO_RIGHTS: Final[Rights] = {}


class AsksForRights(Protocol):
    """Asks the coordinators of transactions."""

    def wanted(self, name: TopicPartition, batch: bytes) -> bool:
        """Whether the batch would begin its producer's transaction in this partition, which is led here."""

    async def of(
        self, transactional_id: str, batches: Mapping[TopicPartition, bytes], *, add: bool
    ) -> Rights:
        """The rights for these batches, which are wanted. `add`: adds the partitions to the transaction."""


@dataclass(slots=True)
class _Arrived:
    """A message of a produce stream: its arrival time, the number of its entries without an outcome, and how
    long the stream is not read after it."""

    at: float
    entries: int
    throttle_ms: int


class ProduceStream:
    """A produce stream. Sends each result when it is known, in that order."""

    def __init__(
        self,
        log: Handlers,
        caller: Caller,
        settings: BrokerSettings,
        times: RequestTimes,
        clock: Clock,
        refuse_internal: Callable[[], StrandlineError | None],
        quotas: ClientQuotas,
        rights: AsksForRights,
    ) -> None:
        self._log = log
        self._rights = rights
        self._caller = caller
        self._clock = clock
        self._refuse_internal = refuse_internal
        """Returns why the client may not write to internal topics; None for a member of the cluster. Called
        for each entry: a stream may be opened before this broker has read the members' key."""
        self._quotas = quotas
        self._times = times
        self._times_ms = times.of("Produce")
        self._in_flight_max = settings.produce_entries_in_flight_max
        self._in_flight = 0
        """Entries whose results are not sent yet."""
        self._results: list[ProduceResult] = []
        self._changed = asyncio.Event()
        """Set when there is a result, or no request is left."""
        self._room = asyncio.Event()
        self._finished = False

    async def serve(self, requests: AsyncIterator[ProduceMessage], reply: ProduceReply) -> None:
        """Serves until the client sends no more and has all results."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._take_all(requests))
            tasks.create_task(self._reply_all(reply))

    async def _take_all(self, requests: AsyncIterator[ProduceMessage]) -> None:
        async for message in requests:
            bill = self._quotas.of(self._caller)
            if bill is None:
                await self._take(message)
            else:
                await self._take_charged(message, bill)
            while self._in_flight >= self._in_flight_max:
                self._room.clear()
                await self._room.wait()
        self._finished = True
        self._changed.set()

    async def _take_charged(self, message: ProduceMessage, bill: Bill) -> None:
        """Takes the message once its client has paid for what it used before, on any stream, and waits for
        what this one costs."""
        await paid(bill, _BOTH, self._clock)
        bill.charge(Quota.PRODUCER_BYTE_RATE, message.bytes)
        await charged_time(self._take(message, ceil(bill.wait_s * 1000)), bill, Turns(self._clock.monotonic))
        if wait_s := bill.wait_s:
            await self._clock.sleep(wait_s)

    async def _take(self, message: ProduceMessage, throttle_ms: int = 0) -> None:
        slices = Slices(self._clock)
        arrived = _Arrived(self._times.now(), message.count, throttle_ms)
        unsure = frozenset[TopicPartition]()
        if message.unreplicated:
            unsure = await self._log.standing.unsure(message.unreplicated)
        entries, rights = message.entries, _NO_RIGHTS
        if message.transactional:
            entries = tuple(entries)
            rights = await self._rights_for(entries)
        for entry in entries:
            if slices.used_up:
                await slices.next()
            self._in_flight += 1
            done = partial(self._done, arrived, entry.correlation_id, entry.acks)
            right = rights.get(entry.name)
            refusal = right if isinstance(right, StrandlineError) else self._refusal(entry)
            if refusal is None and self._log.recompression.wanted(entry.name, entry.records):
                found = await self._log.recompression.of(entry.name, entry.records, self._caller)
                if isinstance(found, bytes):
                    entry = entry._replace(records=found)
                else:
                    refusal = found
            if refusal is not None:
                done(refusal)
            else:
                begins = right if isinstance(right, Transactional) else None
                sure = entry.name not in unsure
                self._log.produce(entry, done, self._caller, sure=sure, transaction=begins)

    async def _rights_for(self, entries: Sequence[ProduceEntry]) -> Rights:
        """For the partitions in which these entries begin their producer's transaction."""
        found: dict[TopicPartition, Transactional | StrandlineError] = {}
        for of in dict.fromkeys(entry.transactional_id for entry in entries):  # a producer has one
            own = (entry for entry in reversed(entries) if entry.transactional_id == of)
            batches = {entry.name: entry.records for entry in own if self._begins(entry)}
            found.update(await self._rights.of(of, batches, add=True))
        return found

    def _begins(self, entry: ProduceEntry) -> bool:
        """Whether the coordinator has to know of the partition."""
        return (
            self._rights.wanted(entry.name, entry.records)
            and self._refusal(entry) is None
            and self._log.may_be_in_transaction(entry.name.topic, self._caller)
        )

    def _refusal(self, entry: ProduceEntry) -> StrandlineError | None:
        """Why the entry is refused before its log is asked."""
        if in_transaction(entry.records):
            of = entry.transactional_id
            if not of:
                return TransactionalIdAuthorizationFailed("a batch in a transaction has no transactional id")
            if (refusal := self._log.access.refusal(self._caller, WRITE_TRANSACTIONAL_ID, of)) is not None:
                return refusal
        return self._refusal_of_internal(entry) if entry.internal else None

    def _refusal_of_internal(self, entry: ProduceEntry) -> StrandlineError | None:
        """A caller without the right learns of that first, and not of the members' key."""
        return self._log.write_refusal(entry.name.topic, self._caller) or self._refuse_internal()

    def _done(self, arrived: _Arrived, correlation_id: int, acks: int, outcome: ProduceOutcome) -> None:
        arrived.entries -= 1
        if arrived.entries == 0:
            self._times_ms.observe(self._times.since_ms(arrived.at))
        if acks != 0 or isinstance(outcome, StrandlineError):  # with acks=0 only errors are reported
            self._results.append(_result(correlation_id, outcome, arrived.throttle_ms))
        else:
            self._let_go(1)
        self._changed.set()

    def _let_go(self, entries: int) -> None:
        self._in_flight -= entries
        self._room.set()

    async def _reply_all(self, reply: ProduceReply) -> None:
        while not (self._finished and self._in_flight == 0 and not self._results):
            await self._changed.wait()
            self._changed.clear()
            if self._results:
                results, self._results = self._results[:RESULTS_MAX], self._results[RESULTS_MAX:]
                await reply(results)
                self._let_go(len(results))  # no new request is read from a client that reads no results
                self._changed.set()


def _result(correlation_id: int, outcome: ProduceOutcome, throttle_ms: int) -> ProduceResult:
    if isinstance(outcome, StrandlineError):
        return ProduceResult(correlation_id, outcome, throttle_ms=throttle_ms)
    return ProduceResult(
        correlation_id, None, outcome.base_offset, outcome.appended, outcome.log_start_offset, throttle_ms
    )
