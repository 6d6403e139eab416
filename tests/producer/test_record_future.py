"""A record's future behaves as asyncio's own do."""

from __future__ import annotations

import asyncio

import pytest

from strandline.errors import MessageTooLarge, NotEnoughReplicas, Outcome
from strandline.ids import TopicPartition
from strandline.producer.record_future import RecordFuture
from strandline.producer.tickets import (
    BatchMetadata,
    Bulk,
    BulkMetadata,
    BulkSendFailed,
    RecordMetadata,
    RecordTicket,
)
from tests.waiting import DEADLINE_S

NAME = TopicPartition("t", 3)


async def test_every_way_to_wait_for_a_future_takes_a_record_future() -> None:
    ticket = RecordTicket(NAME)
    futures = [RecordFuture(ticket, index) for index in range(6)]
    loop = asyncio.get_running_loop()
    called = loop.create_future()
    futures[0].add_done_callback(lambda future: called.set_result(future.result()))
    loop.call_soon(ticket.acknowledge, NAME, 100, 6)
    assert not futures[1].done()
    assert await asyncio.wait_for(futures[1], DEADLINE_S) == RecordMetadata("t", 3, 101)
    assert await asyncio.shield(futures[2]) == RecordMetadata("t", 3, 102)
    assert [m.offset for m in await asyncio.gather(*futures)] == list(range(100, 106))  # noqa: TID251
    done, pending = await asyncio.wait(futures[3:5])
    assert (len(done), pending) == (2, set())
    assert await called == RecordMetadata("t", 3, 100)
    assert (await futures[5]).offset == 105
    assert asyncio.isfuture(futures[5])


async def test_a_future_first_used_after_the_end_has_the_result() -> None:
    ticket = RecordTicket(NAME)
    early, late = RecordFuture(ticket, 0), RecordFuture(ticket, 1)
    assert not early.done()
    ticket.fail(NotEnoughReplicas("1 of 2"))
    assert early.done() and late.done()
    assert isinstance(early.exception(), NotEnoughReplicas)
    with pytest.raises(NotEnoughReplicas):
        await late


async def test_a_cancelled_wait_does_not_disturb_the_others() -> None:
    ticket = RecordTicket(NAME)
    given_up, kept = RecordFuture(ticket, 0), RecordFuture(ticket, 1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(given_up, 0.001)
    assert given_up.cancelled()
    assert not kept.done()
    ticket.acknowledge(NAME, -1, 2)
    assert kept.result() == RecordMetadata("t", 3, -1), "the offset is unknown"


async def test_a_bulk_ends_with_its_last_batch() -> None:
    bulk = Bulk("t", 3, asyncio.get_running_loop().create_future())
    first, second = bulk.part(), bulk.part()
    first.acknowledge(NAME, 7, 2)
    second.acknowledge(NAME, 9, 1)
    assert not bulk.future.done(), "there might be a third"
    bulk.close()
    assert bulk.future.result() == BulkMetadata(
        "t", 3, (BatchMetadata("t", 3, 7, 2), BatchMetadata("t", 3, 9, 1))
    )


async def test_a_bulk_of_nothing_ends_at_once() -> None:
    bulk = Bulk("t", 0, asyncio.get_running_loop().create_future())
    bulk.close()
    assert bulk.future.result() == BulkMetadata("t", 0, ())


async def test_a_bulk_that_failed_in_part_says_which_part() -> None:
    bulk = Bulk("t", 3, asyncio.get_running_loop().create_future())
    first, second = bulk.part(), bulk.part()
    bulk.close()
    first.fail(MessageTooLarge("no"))
    second.acknowledge(NAME, 9, 1)
    error = bulk.future.exception()
    assert isinstance(error, BulkSendFailed)
    assert error.outcome is Outcome.UNKNOWN
    assert error.acknowledged == (BatchMetadata("t", 3, 9, 1),)
    assert isinstance(error.errors[0], MessageTooLarge)


async def test_a_bulk_that_failed_as_a_whole_fails_with_its_first_error() -> None:
    bulk = Bulk("t", 3, asyncio.get_running_loop().create_future())
    parts = [bulk.part(), bulk.part()]
    bulk.close()
    for part in parts:
        part.fail(NotEnoughReplicas("1 of 2"))
    assert isinstance(bulk.future.exception(), NotEnoughReplicas)
