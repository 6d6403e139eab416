"""One task over a changelog on a real broker: what a commit is, and what is left of one that dies in it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import cycle, islice
from typing import Any

import pytest

from strandline import LocalCluster, Producer
from strandline.client.core.positions import ReadLog
from strandline.errors import MessageTooLarge, UnexpectedOffset
from strandline.ids import NO_TOPIC_ID, TopicId
from strandline.streams import INTEGER, ProcessingFailed
from strandline.streams.core.origins import ORIGIN_HEADER, origin_header
from strandline.streams.runtime.tasks.active import ActiveTask
from strandline.streams.runtime.tasks.outputs import OUTPUT_OVERHEAD_BYTES, WAITING_BYTES_MAX
from tests.streams.runtime.task_bench import LOG, Bench, Dies, columns_of, counts, refused

ANEW = LOG._replace(topic_id=TopicId("b" * 32))
KEYS = list(islice(cycle(["a", "b", "c", "a"]), 40))


async def test_a_commit_that_dies_at_any_step_counts_each_record_once(bench: Bench) -> None:
    """It dies at the first wait of a commit, the next life at the second, and so on until one comes through.
    Each continues from the changelog, every other one with the store of the one before. Outputs come before
    the changelog, and the store comes after it (CORRECTNESS S3)."""
    counted = await bench.counted()
    records = counted.records(KEYS * 20)
    survived, step, lives = False, 0, 0
    while not survived:
        run = await counted.begin("store" if lives % 2 else None)
        lives += 1
        begins_at = run.position
        assert counts(run.store) == Counter(
            record.key.decode() for record in records[:begins_at] if record.key
        )
        run.take(records, most=7)
        try:
            survived = await Dies(run.active.commit(), step)
        except UnexpectedOffset:
            continue  # what the one before had sent arrived after this one had looked
        finally:
            run.active.abandon()
            run.store.close()
        step += 1
        _, positions = await counted.restored()
        committed = positions.inputs.get(counted.source, LOG.at(0)).offset
        assert len(await counted.reported()) >= committed, "the changelog is ahead of the outputs"
    assert step > 3, "a commit waits for outputs and for the changelog, or this test sees none of it"
    found, positions = await counted.restored()
    committed = positions.inputs[counted.source].offset
    assert found == Counter(record.key.decode() for record in records[:committed] if record.key)
    latest = dict(await counted.reported())
    assert all(latest[key] >= count for key, count in found.items())


async def test_what_is_processed_during_a_commit_is_left_for_the_next_one(bench: Bench) -> None:
    """Its outputs are not waited for, so neither its changes nor its position may be in the changelog yet
    (CORRECTNESS S3)."""
    counted = await bench.counted()
    records = counted.records(KEYS)
    run = await counted.begin()
    for begins_at in range(0, len(records), 10):
        assert run.take(records, most=5) == begins_at + 5
        async with asyncio.TaskGroup() as commits:
            commit = commits.create_task(run.active.commit())
            await asyncio.sleep(0)
            assert run.take(records, most=5) == begins_at + 10 and not commit.done()
        found, positions = await counted.restored()
        assert found == Counter(KEYS[: begins_at + 5]) == counts(run.store)
        assert positions.inputs == run.active.committed == {counted.source: LOG.at(begins_at + 5)}
        assert run.active.uncommitted
        await run.active.commit()
        assert counts(run.store) == Counter(KEYS[: begins_at + 10]) and not run.active.uncommitted


@pytest.mark.parametrize("sending", [ActiveTask.send, ActiveTask.commit])
async def test_nothing_is_committed_once_outputs_are_lost_by_a_cancellation(
    bench: Bench, sending: Callable[[ActiveTask], Coroutine[Any, Any, None]]
) -> None:
    """As when another task's commit fails, and this one commits for its next owner at the same moment."""
    counted = await bench.counted()
    run = await counted.begin()
    run.take(counted.records(KEYS))
    async with asyncio.TaskGroup() as tasks:
        begun = tasks.create_task(sending(run.active))
        await asyncio.sleep(0)
        begun.cancel()
    assert begun.cancelled()
    await run.active.commit()
    assert (await counted.restored())[0] == {} == counts(run.store)


async def test_the_second_commit_of_two_owners_of_one_task_is_refused_and_counts_nothing_twice(
    bench: Bench,
) -> None:
    """(CORRECTNESS S3, S8)"""
    counted = await bench.counted()
    records = counted.records(KEYS)
    zombie, owner = await counted.begin(), await counted.begin()
    assert zombie.take(records, most=10) == owner.take(records, most=20) - 10
    await owner.active.commit()
    assert await refused(zombie.active.commit())
    zombie.active.abandon()
    zombie.take(records)
    await zombie.active.commit()
    assert (zombie.store.checkpoint, counts(zombie.store)) == (0, {}), "what was refused is not in its store"
    owner.take(records)
    await owner.active.commit()
    found, positions = await counted.restored()
    assert found == Counter(KEYS) == counts(owner.store)
    assert positions.inputs[counted.source] == LOG.at(len(records))


async def test_a_commit_with_unknown_outcome_ends_the_run_and_the_next_one_finds_out(
    bench: Bench, cluster: LocalCluster
) -> None:
    """The broker hangs with the batch in flight: only the changelog has the answer."""
    counted = await bench.counted()
    records = counted.records(KEYS)
    hasty = Producer(bench.bootstrap, delivery_timeout_ms=500)
    await bench.opened.enter_async_context(hasty)
    first = await counted.begin(changelogs=hasty)
    first.take(records, most=10)
    await first.active.commit()
    first.take(records, most=10)
    await first.active.send()
    await bench.outputs.flush()
    cluster.pause_broker(1)
    try:
        assert await refused(first.active.commit())
    finally:
        cluster.resume_broker(1)
    assert counts(first.store) == Counter(KEYS[:10]), "its store waits for the changelog"
    first.active.abandon()
    second = await counted.begin()
    while second.position < len(records):
        assert counts(second.store) == Counter(KEYS[: second.position])
        second.take(records)
        if await refused(second.active.commit()):
            second = await counted.begin()  # what had hung arrived
    assert (await counted.restored())[0] == Counter(KEYS)


async def test_a_record_repeated_by_a_repartition_is_counted_once(bench: Bench) -> None:
    """Also by the next life: origins are in the position record (CORRECTNESS S9)."""
    counted = await bench.counted_behind_a_repartition()
    source = counted.source._replace(topic="upstream")
    places = [(0, 0), (0, 1), (1, 0), (0, 0), (0, 1), (1, 0), (2, 0), (1, 0), (3, 0)]
    headers = [((ORIGIN_HEADER, origin_header(source, *place)),) for place in places]
    records = counted.records(["k"] * len(places), headers=headers)
    first = await counted.begin()
    first.take(records, most=5)
    await first.active.commit()
    assert counts(first.store) == {"k": 3}
    second = await counted.begin()
    assert second.position == 5
    second.take(records)
    await second.active.commit()
    assert second.position == len(places)
    assert counts(second.store) == {"k": len(set(places))}


async def test_a_task_stops_in_the_middle_of_a_slice_when_a_commit_is_due(bench: Bench) -> None:
    counted = await bench.counted()
    records = counted.records([f"{'x' * 50}-{number}" for number in range(100)])
    run = await counted.begin(commit_bytes=500)
    commits = 0
    while run.position < len(records):
        before = run.position
        run.take(records)
        assert run.active.full or run.position == len(records)
        assert before < run.position <= before + 10
        await run.active.commit()
        assert not run.active.full and not run.active.uncommitted
        commits += 1
    assert commits >= 10
    assert counts(run.store) == {record.key.decode(): 1 for record in records if record.key}


async def test_a_task_stops_in_the_middle_of_a_slice_when_many_outputs_wait(bench: Bench) -> None:
    counted = await bench.counted()
    most = WAITING_BYTES_MAX // (OUTPUT_OVERHEAD_BYTES + len(b"k") + len(INTEGER.encode(1))) + 1
    records = counted.records(["k"] * (2 * most + 10))
    run = await counted.begin(commit_bytes=1 << 20)
    assert run.take(records) == most
    await run.active.send()
    assert run.take(records) == 2 * most
    await run.active.commit()
    assert run.take(records) == len(records)
    await run.active.commit()
    assert [count for _, count in await counted.reported()] == list(range(1, len(records) + 1))
    batches = [batch.record_count for batch in await counted.batches()]
    assert len(batches) < 10 and sum(batches) == len(records), "outputs are sent by the batch"


async def test_a_change_that_fits_no_message_is_refused_with_what_to_do_about_it(bench: Bench) -> None:
    counted = await bench.counted()
    run = await counted.begin(commit_bytes=1 << 30)
    run.take(counted.records([f"{number}".rjust(100_000) for number in range(20)]))
    with pytest.raises(MessageTooLarge, match="commit_bytes be lower") as caught:
        await run.active.commit()
    assert counted.changelog.topic in caught.value.message
    assert await counted.restored() == ({}, run.store.positions())


async def test_after_a_record_that_failed_nothing_more_is_committed(bench: Bench) -> None:
    """Half of what the record does may be in the state by then."""
    counted = await bench.counted()
    run = await counted.begin()
    records = counted.records(["a", "b", "c"])
    run.take(records, most=1)
    broken = [records[1], records[2]._replace(key=b"\xff")]
    with pytest.raises(ProcessingFailed, match=rf"{counted.source} offset 2: UnicodeDecodeError"):
        run.active.process(counted.source, columns_of(broken), 0, LOG)
    assert not run.active.uncommitted
    await run.active.commit()
    assert (await counted.restored())[0] == {}


@pytest.mark.parametrize(
    ("log", "begins_at", "why"),
    [
        (LOG, 7, "the log has lost the records from 7 on, in an election with a loss"),
        (LOG._replace(topic_id=NO_TOPIC_ID), 7, "it begins again at 7.*or the topic was made anew"),
        (ANEW, 0, "was made anew: the one with id a{32} .* id b{32}"),
        (ANEW, 40, "was made anew: the one with id a{32} .* id b{32}"),
    ],
)
async def test_records_of_another_log_than_the_one_that_was_read_are_refused(
    bench: Bench, log: ReadLog, begins_at: int, why: str
) -> None:
    """CORRECTNESS S10: nothing is committed after that."""
    counted = await bench.counted()
    run = await counted.begin()
    records = counted.records(KEYS * 2)
    run.take(records, most=40)
    with pytest.raises(ProcessingFailed, match=why):
        run.active.process(counted.source, columns_of(records[begins_at:]), 0, log)
    assert run.active.abandoned() and not run.active.uncommitted
