"""A produce stream whose client does not read its results is not read either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from strandline.adapters.rpc.request_times import RequestTimes
from strandline.broker.core.replication.produce_ticket import Produced, ProduceOutcome
from strandline.broker.log.produce_stream import ProduceStream
from strandline.errors import BrokerNotAvailable, StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Caller
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import DEFAULT, Quota, QuotaEntity, Quotas
from strandline.vocabulary.log import ProduceEntry, ProduceMessage, ProduceResult, Transactional
from tests.broker.support.access import CALLER
from tests.broker.support.quotas import UNLIMITED
from tests.broker.support.replicas import CLOCK, settings
from tests.hand_clock import HandClock
from tests.waiting import eventually

IN_FLIGHT_MAX = 5
NO_RIGHTS: Any = None
"""No test here is about transactions."""


class Handlers:
    """Takes everything at once."""

    def __init__(self) -> None:
        self.taken = 0
        self.standing = self.recompression = self

    async def unsure(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        return frozenset()

    def wanted(self, name: TopicPartition, records: bytes) -> bool:
        return False

    def write_refusal(self, topic: str, caller: Caller) -> None:
        return None

    def produce(
        self,
        entry: ProduceEntry,
        done: Callable[[ProduceOutcome], None],
        caller: Caller,
        *,
        sure: bool,
        transaction: Transactional | None = None,
    ) -> None:
        self.taken += 1
        done(Produced(self.taken, 0))


class Unread:
    """A client that reads nothing until it does."""

    def __init__(self) -> None:
        self.read = asyncio.Event()
        self.results = 0

    async def reply(self, results: Sequence[ProduceResult]) -> None:
        await self.read.wait()
        self.results += len(results)


async def entries(count: int) -> AsyncIterator[ProduceMessage]:
    name = TopicPartition("orders", 0)
    for number in range(count):
        entry = ProduceEntry(name, b"", acks=1, correlation_id=number)
        yield ProduceMessage(1, [entry], (name,))
        await asyncio.sleep(0)


async def test_results_that_are_not_read_block_the_ones_behind_them() -> None:
    """An entry was done with its result, read or not, and results piled up."""
    handlers: Any = Handlers()
    client = Unread()
    stream = ProduceStream(
        handlers,
        CALLER,
        settings(produce_entries_in_flight_max=IN_FLIGHT_MAX),
        RequestTimes(CLOCK),
        CLOCK,
        lambda: None,
        UNLIMITED,
        NO_RIGHTS,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(stream.serve(entries(1_000), client.reply))
        for _ in range(100):
            await asyncio.sleep(0)
        assert handlers.taken == IN_FLIGHT_MAX
        client.read.set()
        await eventually(lambda: client.results == 1_000)


async def test_the_key_of_members_is_compared_for_each_entry() -> None:
    """(X3) The broker that serves the stream may read the key after the stream was opened."""
    handlers: Any = Handlers()
    refusals: list[StrandlineError | None] = [BrokerNotAvailable("not read yet"), None]
    errors: list[StrandlineError | None] = []

    async def reply(results: Sequence[ProduceResult]) -> None:
        errors.extend(result.error for result in results)

    async def internal() -> AsyncIterator[ProduceMessage]:
        name = TopicPartition("__state_changes", 0)
        for number in range(2):
            entry = ProduceEntry(name, b"", acks=-1, correlation_id=number, internal=True)
            yield ProduceMessage(1, [entry], ())

    stream = ProduceStream(
        handlers,
        CALLER,
        settings(),
        RequestTimes(CLOCK),
        CLOCK,
        lambda: refusals.pop(0),
        UNLIMITED,
        NO_RIGHTS,
    )
    await stream.serve(internal(), reply)
    assert [type(error) for error in errors] == [BrokerNotAvailable, type(None)]


async def test_a_stream_over_its_quota_is_not_read_and_its_results_say_for_how_long() -> None:
    """The broker takes the message, and reads the next one when the client has paid for it."""
    clock, handlers, told = HandClock(), Handlers(), list[int]()
    quotas = ClientQuotas(lambda _: False, clock.monotonic, delay_ms_max=5_000)
    quotas.take(Quotas({QuotaEntity(DEFAULT): {Quota.PRODUCER_BYTE_RATE: 1_000}}))

    async def reply(results: Sequence[ProduceResult]) -> None:
        told.extend(result.throttle_ms for result in results)

    read_at: list[float] = []

    async def messages() -> AsyncIterator[ProduceMessage]:
        for number in range(3):
            read_at.append(clock.now_s)
            entry = ProduceEntry(TopicPartition("t", 0), b"", correlation_id=number)
            yield ProduceMessage(1, [entry], (), bytes=2_000)

    log: Any = handlers
    stream = ProduceStream(
        log, CALLER, settings(), RequestTimes(clock), clock, lambda: None, quotas, NO_RIGHTS
    )
    await stream.serve(messages(), reply)
    assert told == [1_000, 2_000, 2_000]
    assert [at - read_at[0] for at in read_at] == [0, 1, 3]
