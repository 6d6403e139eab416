"""One range after the other, exactly, from brokers in memory that change their minds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from strandline.errors import UndecodableBatch
from strandline.pipeline.core.ranges import OffsetRange
from strandline.pipeline.errors import DataLost, ReadStalled
from strandline.pipeline.reading.ranges import RangeReader
from tests.strandline.client.log_world import CLOCK, LogWorld
from tests.strandline.client.network import memory_host
from tests.waiting import eventually

SOON_S = 0.3
"""How long these tests let nothing come."""


@pytest.fixture
def world() -> LogWorld:
    return LogWorld()


@pytest.fixture
async def reader(world: LogWorld) -> AsyncIterator[RangeReader]:
    async with RangeReader("broker1:1,broker2:1", host=memory_host(world, CLOCK)) as started:
        yield started


def part(start: int, end: int, *, topic_id: str = "first") -> OffsetRange:
    return OffsetRange("t", 0, start, end, topic_id)


async def read(
    reader: RangeReader, wanted: OffsetRange, *, timeout_s: float = 10, fail: bool = True
) -> list[int]:
    """The offsets that come, up to the end of the range."""
    await reader.begin(wanted, timeout_s=timeout_s, fail_on_data_loss=fail)
    return await rest(reader, wanted)


async def rest(reader: RangeReader, wanted: OffsetRange) -> list[int]:
    found: list[int] = []
    while chunk := await reader.next():
        found += [offset for batch in chunk for offset in batch.columns().offsets if offset < wanted.end]
    return found


async def test_a_range_is_its_offsets_wherever_batches_begin_and_end(
    world: LogWorld, reader: RangeReader
) -> None:
    (log,) = world.create("t")
    for count in (10, 1, 7, 22):
        log.write(count)
    for start, end in ((0, 40), (3, 11), (10, 11), (17, 18), (39, 40), (5, 5)):
        assert await read(reader, part(start, end)) == list(range(start, end))


async def test_compacted_records_are_no_loss_at_the_begin_in_the_middle_or_at_the_end(
    world: LogWorld, reader: RangeReader
) -> None:
    (log,) = world.create("t")
    log.leave_out(5)
    log.write(3)
    log.leave_out(100)
    log.write(2)
    log.leave_out(7)
    assert await read(reader, part(0, 117)) == [5, 6, 7, 108, 109]
    assert await read(reader, part(20, 60)) == []


async def test_more_than_a_buffer_holds_is_read_in_order(world: LogWorld, reader: RangeReader) -> None:
    (log,) = world.create("t")
    for _ in range(120):
        log.write(4, value=b"x" * 50_000)
    assert await read(reader, part(1, 479)) == list(range(1, 479))


async def test_changes_of_leaders_and_dead_brokers_cost_no_record(
    world: LogWorld, reader: RangeReader
) -> None:
    """(CORRECTNESS P3)"""
    (log,) = world.create("t")
    for _ in range(100):
        log.write(10, value=b"x" * 20_000)
    wanted = part(0, 1_100)
    await reader.begin(wanted, timeout_s=20, fail_on_data_loss=True)
    found = [offset for batch in await reader.next() for offset in batch.columns().offsets]
    assert len(found) < 300
    world.kill(1)
    log.lead(2)
    log.write(50)
    world.dead.clear()
    log.lead(1)
    log.write(50)
    assert [*found, *await rest(reader, wanted)] == list(range(1_100))


async def test_records_that_a_new_leader_hides_for_a_moment_are_awaited(
    world: LogWorld, reader: RangeReader
) -> None:
    (log,) = world.create("t")
    log.write(5)
    log.write(5)
    log.watermark = 5
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(read(reader, part(0, 10)))
        asked = len(world.asked)
        await eventually(lambda: len(world.asked) > asked + 2, what="it is looked at why nothing comes")
        assert not reading.done()
        log.watermark = None
    assert reading.result() == list(range(10))


# --- losses -------------------------------------------------------------------------------------


async def test_a_loss_to_retention_is_reported_to_the_offset_or_skipped(
    world: LogWorld, reader: RangeReader, caplog: pytest.LogCaptureFixture
) -> None:
    """(CORRECTNESS P3)"""
    (log,) = world.create("t")
    for _ in range(4):
        log.write(10)
    log.forget(20)
    with pytest.raises(DataLost, match=r"^t-0 has lost offsets 5 to 19: the log starts at offset 20"):
        await read(reader, part(5, 30))
    with pytest.raises(DataLost, match=r"^t-0 has lost offsets 5 to 14: "):
        await read(reader, part(5, 15))
    with caplog.at_level(logging.WARNING):
        assert await read(reader, part(5, 30), fail=False) == list(range(20, 30))
    assert "t-0 has lost offsets 5 to 19" in caplog.text
    assert await read(reader, part(5, 15), fail=False) == []


async def test_a_loss_to_retention_in_the_middle_of_a_read_is_reported_too(
    world: LogWorld, reader: RangeReader
) -> None:
    (log,) = world.create("t")
    log.write(10)
    log.write(10)
    log.watermark = 10
    await reader.begin(part(0, 20), timeout_s=10, fail_on_data_loss=True)
    assert await reader.next()
    log.write(10)
    log.forget(20)
    log.watermark = None
    with pytest.raises(DataLost, match="t-0 has lost offsets 10 to 19"):
        await reader.next()


async def test_a_log_that_was_truncated_is_a_loss_after_the_time_allowed(
    world: LogWorld, reader: RangeReader
) -> None:
    """(CORRECTNESS P3)"""
    (log,) = world.create("t")
    log.write(10)
    for start in (5, 10, 12):
        with pytest.raises(
            DataLost, match=rf"has lost offsets {max(start, 10)} to 19: the log ends at offset 10"
        ):
            await read(reader, part(start, 20), timeout_s=SOON_S)
    assert await read(reader, part(5, 20), timeout_s=SOON_S, fail=False) == list(range(5, 10))


async def test_another_topic_of_the_name_is_a_loss_and_not_read(world: LogWorld, reader: RangeReader) -> None:
    (log,) = world.create("t", topic_id="second", epoch=7)
    log.write(30)
    with pytest.raises(DataLost, match=r"^t-0 has lost from offset 5 on: .*id second in place of first"):
        await read(reader, part(5, 30))
    assert await read(reader, part(5, 30), fail=False) == []


async def test_a_broker_that_knows_only_the_old_topic_is_not_believed(
    world: LogWorld, reader: RangeReader
) -> None:
    """The driver has planned on the new one already; it was another topic of the name, and lost."""
    world.create("t")[0].write(3)
    world.fall_behind()
    (new,) = world.create("t", topic_id="second", epoch=7)
    new.write(9)

    async def learn() -> None:
        await CLOCK.sleep(0.1)
        world.known = None

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(learn())
        planned = replace(part(0, 9), topic_id="second", leader_epoch=7)
        assert await read(reader, planned) == list(range(9))


@pytest.mark.parametrize("behind", [False, True])
async def test_a_topic_that_is_created_again_in_the_middle_gives_nothing_to_the_range(
    world: LogWorld, reader: RangeReader, behind: bool
) -> None:
    """The new leader is fetched from as the partition's next one: only the epoch of its batches shows the
    difference. A broker that does not know that epoch yet reports the old topic, and is not believed."""
    (old,) = world.create("t")
    old.write(10)
    await reader.begin(part(0, 30), timeout_s=10, fail_on_data_loss=True)
    assert [batch.next_offset for batch in await reader.next()] == [10]
    if behind:
        world.fall_behind()
    (new,) = world.create("t", topic_id="second", epoch=5)
    new.write(40)
    new.leader = 1

    async def learn() -> None:
        await CLOCK.sleep(0.1)
        world.known = None

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(learn())
        with pytest.raises(DataLost, match="has lost from offset 10 on"):
            await reader.next()


async def test_a_topic_that_is_gone_is_a_loss_once_no_broker_knows_it_for_a_while(
    world: LogWorld, reader: RangeReader
) -> None:
    world.create("t")
    del world.topics["t"]
    with pytest.raises(DataLost, match=r"^t-0 has lost from offset 3 on: the topic no longer exists"):
        await read(reader, part(3, 9), timeout_s=SOON_S)


# --- what is no loss ----------------------------------------------------------------------------


async def test_a_partition_without_a_leader_is_reported_as_stalled_and_not_as_lost(
    world: LogWorld, reader: RangeReader
) -> None:
    (log,) = world.create("t")
    log.write(5)
    log.write(5)
    log.watermark = 5
    await reader.begin(part(0, 10), timeout_s=SOON_S, fail_on_data_loss=False)
    assert await reader.next()
    log.leader = 2
    world.kill(2)
    with pytest.raises(
        ReadStalled, match=r"offsets 0 to 9: nothing came from offset 5 on .*pollTimeoutMs = 300"
    ):
        await reader.next()


async def test_no_answer_is_a_stall(world: LogWorld, reader: RangeReader) -> None:
    world.create("t")
    world.dead |= {1, 2}
    with pytest.raises(ReadStalled, match="no broker answered"):
        await read(reader, part(0, 9), timeout_s=SOON_S, fail=False)


async def test_an_unreadable_batch_is_reported_as_such(world: LogWorld, reader: RangeReader) -> None:
    (log,) = world.create("t")
    log.write(10)
    log.batches[0] = with_codec(log.batches[0], 7)
    with pytest.raises(UndecodableBatch, match=r"t-0: offsets 0 to 9 cannot be decoded: .*codec 7") as raised:
        await read(reader, part(0, 10))
    assert raised.value.next_offset == 10


def with_codec(batch: bytes, codec: int) -> bytes:
    """With another codec in its header, and the CRC that belongs to that."""
    import google_crc32c

    changed = bytearray(batch)
    changed[22] = codec
    changed[17:21] = google_crc32c.value(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


async def test_the_next_range_begins_where_it_should_after_one_that_was_left_in_the_middle(
    world: LogWorld, reader: RangeReader
) -> None:
    (log,) = world.create("t")
    for _ in range(5):
        log.write(10)
    await reader.begin(part(0, 50), timeout_s=10, fail_on_data_loss=True)
    assert await reader.next(1)
    assert await read(reader, part(4, 13)) == list(range(4, 13))
    assert await reader.next() == []
