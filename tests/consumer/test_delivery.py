"""Handed-out records are in hand until the application is done with them: by a get call, or a commit."""

from __future__ import annotations

import asyncio

import pytest

from strandline.client.reading.records import FetchedBatch
from strandline.config.limits import KIB, MIB
from strandline.errors import CoordinatorNotAvailable, StrandlineError
from strandline.ids import TopicPartition
from strandline.records import Codec, Columns, encode_values, gap_batch, keep_records, validate
from tests.consumer.brokers import Parts

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def processed(parts: Parts, name: TopicPartition) -> int | None:
    return parts.reader.positions[name].processed


async def test_a_record_is_processed_at_the_next_get_call() -> None:
    async with Parts() as parts:
        parts.assign(A)
        parts.arrive(A, 3)
        seen = []
        for _ in range(3):
            record = await parts.delivery.getone()
            seen.append((record.offset, processed(parts, A)))
        assert seen == [(0, 0), (1, 1), (2, 2)]
        assert await parts.delivery.getmany((), 0, None) == {}
        assert processed(parts, A) == 3


async def test_all_of_a_getmany_is_processed_at_once() -> None:
    async with Parts() as parts:
        parts.assign(A, B)
        parts.arrive(A, 3)
        parts.arrive(B, 3)
        assert sum(map(len, (await parts.delivery.getmany((), 0, 4)).values())) == 4
        assert (processed(parts, A), processed(parts, B)) == (0, 0)
        assert parts.delivery.in_hand({A}) and parts.delivery.in_hand({B})
        _ = await parts.delivery.getmany((A,), 0, None)
        assert processed(parts, A) == 3
        assert [batch.record_count for batch in await parts.delivery.getbatches((), 0)] == [2]
        assert processed(parts, B) == 1


async def test_columns_records_and_batches_continue_where_another_call_ended() -> None:
    """Also in the middle of a batch, and over several; in each way the records are in hand."""
    async with Parts() as parts:
        parts.assign(A)
        parts.arrive(A, 5)
        parts.arrive(A, 5)
        assert (await parts.delivery.getone()).offset == 0
        taken = (await parts.delivery.getcolumns((), 0, 6))[A]
        assert taken == Columns([1, 2, 3, 4, 5, 6], [0] * 6, [None] * 6, [b"v"] * 6, [()] * 6)
        assert processed(parts, A) == 1 and parts.delivery.in_hand({A})
        assert [record.offset for record in (await parts.delivery.getmany((), 0, 1))[A]] == [7]
        assert processed(parts, A) == 7
        assert [batch.base_offset for batch in await parts.delivery.getbatches((), 0)] == [8]
        assert await parts.delivery.getcolumns((), 0, None) == {}
        assert processed(parts, A) == 10


ZEROS = bytes(100 * KIB)
"""A value that compresses to a few bytes."""


@pytest.mark.parametrize(
    ("bytes_max", "batches"), [(1 * KIB, 1), (400 * KIB, 2), (800 * KIB, 4), (64 * MIB, 6)]
)
async def test_a_poll_ends_at_a_bound_of_decompressed_bytes(bytes_max: int, batches: int) -> None:
    """Six batches with 200 KiB each that are a few bytes in the log; the next call goes on, also in the midst
    of a batch. One batch is always handed out."""
    async with Parts(poll_bytes_max=bytes_max) as parts:
        parts.assign(A, B)
        for name in (A, B) * 3:
            parts.arrive(name, 2, ZEROS, Codec.ZSTD)
        assert parts.reader.positions.buffered_bytes < 1 * KIB
        taken = await parts.delivery.getmany((), 0, None)
        assert sum(map(len, taken.values())) == 2 * batches
        assert (
            sum(len(r.value or b"") for records in taken.values() for r in records) <= bytes_max + 200 * KIB
        )
        found = {name: [record.offset for record in records] for name, records in taken.items()}
        while taken := await parts.delivery.getmany((), 0, 3):
            for name, records in taken.items():
                found.setdefault(name, []).extend(record.offset for record in records)
        assert found == {A: list(range(6)), B: list(range(6))}


async def test_few_batches_are_decoded_at_a_time() -> None:
    """A call ends the batch that the one before has begun: each decoded batch may be large. The partitions
    take turns for all that."""
    partitions = [TopicPartition("t", number) for number in range(8)]
    async with Parts() as parts:
        parts.assign(*partitions)
        for name in partitions * 2:
            parts.arrive(name, 5, ZEROS, Codec.ZSTD)
        order: list[int] = []
        for _ in range(20):
            for name, records in (await parts.delivery.getmany((), 0, 4)).items():
                order += [name.partition] * len(records)
            assert sum(reading.untaken > 0 for reading in parts.delivery._readings.values()) <= 1
        assert sorted(order) == sorted([number for number in range(8) for _ in range(10)])
        assert set(order[:40]) == set(range(8))


async def test_a_seek_moves_what_is_committed_and_ends_no_work() -> None:
    """The new place is committed; the handler that sought it runs still, and is waited for."""
    async with Parts() as parts:
        parts.assign(A)
        parts.arrive(A, 5)
        _ = await parts.delivery.getmany((), 0, 2)
        parts.reader.seek(A, 4)
        assert processed(parts, A) == 4 and parts.delivery.in_hand({A})
        _ = await parts.delivery.getmany((), 0, None)
        assert processed(parts, A) == 4 and not parts.delivery.in_hand({A})


async def test_held_partitions_deliver_nothing_and_buffered_records_are_trimmed() -> None:
    """(G9) a partition that is being revoked is not read on, even from the middle of a batch; others are."""
    async with Parts() as parts:
        parts.assign(A, B)
        parts.arrive(A, 3)
        first = await parts.delivery.getone()
        assert first.partition == 0
        parts.arrive(A, 2)
        parts.reader.hold([A])
        parts.arrive(B, 2)
        assert [(await parts.delivery.getone()).partition for _ in range(2)] == [1, 1]
        assert await parts.delivery.getmany((), 0, None) == {}
        state = parts.reader.positions[A]
        assert (state.position, state.processed, list(state.buffered)) == (1, 1, [])
        parts.reader.let_go([A])
        parts.arrive(A, 2)
        assert (await parts.delivery.getone()).offset == 1


async def test_a_drain_ends_with_the_next_get_call() -> None:
    async with Parts() as parts, asyncio.TaskGroup() as tasks:
        parts.assign(A, B)
        parts.arrive(A, 1)
        assert await parts.delivery.drained({A, B}, 60), "nothing is in hand yet"
        _ = await parts.delivery.getone()
        assert await parts.delivery.drained({B}, 60), "nothing of this one is"
        drain = tasks.create_task(parts.delivery.drained({A}, 60))
        await asyncio.sleep(0)
        assert not drain.done()
        _ = await parts.delivery.getmany((), 0, None)
        assert await drain


async def test_a_get_call_is_under_way_from_its_beginning_to_its_end() -> None:
    """Also while it gives way to the loop with a record before it: its caller is there, and not late."""
    async with Parts() as parts, asyncio.TaskGroup() as tasks:
        parts.assign(A)
        parts.arrive(A, 1)
        call = tasks.create_task(parts.delivery.getone())
        await asyncio.sleep(0)
        assert not call.done() and parts.delivery.asking == 1
        _ = await call
        assert parts.delivery.asking == 0
        call = tasks.create_task(parts.delivery.getone())
        await asyncio.sleep(0)
        assert parts.delivery.asking == 1
        call.cancel()
        _ = await asyncio.wait([call])
        assert parts.delivery.asking == 0


@pytest.mark.parametrize("call", ["getone", "getmany", "getcolumns", "getbatches"])
@pytest.mark.parametrize("kind", ["standing", "fatal", "stopped"])
async def test_an_application_that_asks_again_at_once_does_not_starve_the_loop(kind: str, call: str) -> None:
    """`except StrandlineError: continue` around a get call: the loop runs in between, at its own pace."""
    async with Parts() as parts, asyncio.TaskGroup() as tasks:
        parts.assign(A)
        stop, others = asyncio.Event(), 0

        async def ask() -> None:
            while not stop.is_set():
                with pytest.raises(StrandlineError):
                    match call:
                        case "getone":
                            _ = await parts.delivery.getone()
                        case "getmany":
                            _ = await parts.delivery.getmany((), 1000, None)
                        case _:
                            _ = await parts.delivery.getbatches((), 1000)

        match kind:
            case "standing":
                parts.wakeups.note(A, CoordinatorNotAvailable("no position can be had"))
            case "fatal":
                parts.delivery.fail(CoordinatorNotAvailable("the end"))
            case _:
                await parts.scope.stop()
        asking = tasks.create_task(ask())
        while others < 5:
            await asyncio.sleep(0)
            others += 1
        stop.set()
        await asking


async def test_records_of_other_partitions_come_at_once_while_an_error_stands() -> None:
    """The error of one partition is raised repeatedly, and delays no other partition."""
    async with Parts(retry_backoff_ms=60_000, retry_backoff_ms_max=60_000) as parts:
        parts.assign(A, B)
        parts.wakeups.note(A, CoordinatorNotAvailable("no position can be had"))
        with pytest.raises(CoordinatorNotAvailable):
            _ = await parts.delivery.getone()
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(10):
            call = tasks.create_task(parts.delivery.getone())
            await asyncio.sleep(0)
            parts.arrive(B, 1)
            assert (await call).partition == 1


async def test_a_pause_in_the_middle_of_a_batch_keeps_the_rest_of_it() -> None:
    async with Parts() as parts:
        parts.assign(A)
        parts.arrive(A, 3)
        assert (await parts.delivery.getone()).offset == 0
        parts.reader.positions.pause(A)
        parts.delivery.interrupt()
        assert await parts.delivery.getmany((), 0, None) == {}
        parts.reader.positions.resume(A)
        (rest,) = (await parts.delivery.getmany((), 0, None)).values()
        assert [record.offset for record in rest] == [1, 2]


async def test_a_drain_ends_at_its_time_limit_or_when_no_answer_can_come() -> None:
    async with Parts() as parts, asyncio.TaskGroup() as tasks:
        parts.assign(A)
        parts.arrive(A, 1)
        _ = await parts.delivery.getone()
        assert not await parts.delivery.drained({A}, 0.01)
        drain = tasks.create_task(parts.delivery.drained({A}, 60))
        await asyncio.sleep(0)
        parts.delivery.abandon()
        assert not await drain
        assert processed(parts, A) == 0


async def test_pending_errors_are_raised_before_the_rest_of_a_batch() -> None:
    """(G10) the very next get call raises what a listener raised, once, and nothing is skipped for it."""
    async with Parts() as parts:
        parts.assign(A)
        parts.arrive(A, 3)
        assert (await parts.delivery.getone()).offset == 0
        parts.delivery.raise_next(LookupError("the listener failed"))
        with pytest.raises(LookupError):
            _ = await parts.delivery.getone()
        assert [(await parts.delivery.getone()).offset for _ in range(2)] == [1, 2]


async def test_a_fatal_error_is_raised_forever() -> None:
    async with Parts() as parts:
        parts.assign(A)
        parts.arrive(A, 3)
        assert (await parts.delivery.getone()).offset == 0
        parts.delivery.fail(LookupError("fatal"))
        for call in (parts.delivery.getone, lambda: parts.delivery.getmany((), 0, None)) * 2:
            with pytest.raises(LookupError):
                _ = await call()


async def test_offsets_without_records_after_compaction_are_skipped() -> None:
    """The position moves past them, and they are never in hand; behind a record they wait with it until it is
    processed."""
    async with Parts() as parts:
        parts.assign(A)
        state = parts.reader.positions[A]
        arrive_gap(parts, 5)
        assert await parts.delivery.getmany((), 0, None) == {}
        assert (state.position, state.processed) == (5, 5) and not parts.delivery.in_hand({A})
        arrive_gap(parts, 2)
        parts.arrive(A, 1)
        assert (await parts.delivery.getone()).offset == 7
        parts.arrive(A, 1)
        arrive_gap(parts, 3)
        (records,) = (await parts.delivery.getmany((), 0, None)).values()
        assert [record.offset for record in records] == [8]
        assert (state.position, state.processed) == (12, 8)
        assert await parts.delivery.getmany((), 0, None) == {}
        assert state.processed == 12


async def test_a_batch_whose_last_records_were_removed_is_passed_once_the_others_are_delivered() -> None:
    """In each way to take records. Before it is passed, an answer that the log begins behind it must wait."""
    whole = encode_values([b"v"] * 5, 0)
    (header,) = validate(whole)
    data = keep_records(whole, header, [True, True, False, False, False], max_timestamp=0)
    for take in (take_one, take_many, take_batches):
        async with Parts() as parts:
            parts.assign(A)
            state = parts.reader.positions[A]
            arrive_batch(parts, data)
            assert (state.position, state.fetch_offset) == (0, 5)
            await take(parts)
            assert await parts.delivery.getmany((), 0, None) == {}
            assert (state.position, state.processed) == (5, 5)


async def take_one(parts: Parts) -> None:
    assert [(await parts.delivery.getone()).offset for _ in range(2)] == [0, 1]


async def take_many(parts: Parts) -> None:
    assert len((await parts.delivery.getmany((), 0, 2))[A]) == 2


async def take_batches(parts: Parts) -> None:
    await take_one(parts)
    assert await parts.delivery.getbatches((), 0) == []


def arrive_gap(parts: Parts, how_many: int) -> None:
    """Offsets without records, as if fetched."""
    start = parts.reader.positions[A].fetch_offset
    arrive_batch(parts, gap_batch(start, start + how_many, 0))


def arrive_batch(parts: Parts, data: bytes) -> None:
    start = parts.reader.positions[A].fetch_offset
    (header,) = validate(data)
    parts.reader.positions.buffer(A, FetchedBatch(A, header, data, start), header.size, header.next_offset)
    parts.wakeups.arrived()


HUNG_S = 100.0


async def test_a_last_call_that_no_one_noticed_yet_is_not_a_call_of_now() -> None:
    """The first look at an application that hangs said 0, and so did one after a rebalance had begun."""
    async with Parts() as parts:
        parts.assign(A)
        parts.arrive(A, 5)
        _ = await parts.delivery.getone()
        parts.clock.now += HUNG_S
        assert parts.delivery.unpolled_s() == HUNG_S
        parts.reader.seek(A, 0)
        parts.delivery.interrupt()
        assert parts.delivery.unpolled_s() == HUNG_S


async def test_calls_within_a_batch_count_from_the_heartbeat_that_notices_them() -> None:
    """They read no clock, for their speed."""
    async with Parts() as parts:
        parts.assign(A)
        parts.arrive(A, 5)
        _ = await parts.delivery.getone()
        parts.clock.now += 1
        _ = await parts.delivery.getone()
        assert parts.delivery.take_polled()
        parts.clock.now += HUNG_S
        assert not parts.delivery.take_polled()
        assert parts.delivery.unpolled_s() == HUNG_S
        _ = await parts.delivery.getone()
        assert parts.delivery.unpolled_s() == 0
