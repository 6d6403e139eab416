"""A reader of a whole topic against brokers that do what real ones cannot be made to do on time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from strandline.client.reading.topic import BUFFER_BYTES_MAX, CLOCKS_APART_MS_MAX, TopicReader
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.errors import InvalidRequest, LeaderNotAvailable, OffsetOutOfRange, UndecodableBatch
from strandline.ids import NO_BROKER
from strandline.ports import Clock
from strandline.records import BatchHeader
from strandline.records.header import assemble
from strandline.vocabulary.log import Fetched, FetchPartition
from tests.strandline.client.log_world import CLOCK, Log, LogWorld
from tests.strandline.client.network import FastClock
from tests.waiting import eventually

BATCH = 10


def written(log: Log, records: int, value: bytes = b"v") -> Log:
    """This number of records more, in batches of ten."""
    for _ in range(records // BATCH):
        log.write(BATCH, value=value)
    if records % BATCH:
        log.write(records % BATCH, value=value)
    return log


def world_of(*records: int) -> LogWorld:
    """Topic `t`, with this number of records in each partition."""
    world = LogWorld()
    if records:
        for log, count in zip(world.create("t", len(records)), records, strict=True):
            written(log, count)
    return world


def logs_of(world: LogWorld) -> list[Log]:
    return world.topics["t"][1]


@asynccontextmanager
async def reading(world: LogWorld, clock: Clock = CLOCK, **asked: Any) -> AsyncIterator[TopicReader]:
    given = {"follow": False, "request_timeout_ms": 1_000, **asked}
    async with TopicReader("broker1:1,broker2:1", "t", transport=world, clock=clock, **given) as reader:
        yield reader


async def collect(reader: TopicReader, how_many: int | None = None) -> list[tuple[int, int]]:
    """(partition, offset) of all records until it ends, or of at least this number."""
    found: list[tuple[int, int]] = []
    async with asyncio.timeout(20):
        while not reader.ended and (how_many is None or len(found) < how_many):
            found += [(record.partition, record.offset) for record in await reader.read(0.05)]
    return found


async def test_a_reading_ends_where_the_topic_ended_when_it_began() -> None:
    """Records that were committed since are left for the next reading, which continues exactly there."""
    world = world_of(25, 5)
    async with reading(world) as reader:
        found = [(record.partition, record.offset) for record in await reader.read(5)]
        logs_of(world)[0].batches.pop()
        written(logs_of(world)[0], 20)
        found += await collect(reader)
        assert sorted(found) == [(0, n) for n in range(25)] + [(1, n) for n in range(5)]
        assert reader.next_offsets == (25, 5)
        assert await reader.read(0) == []


async def test_a_topic_that_is_not_there_is_empty_or_waited_for() -> None:
    world = LogWorld()
    async with reading(world) as reader:
        assert await collect(reader) == []
        assert reader.next_offsets == ()
    async with reading(world, FastClock(), follow=True) as reader:
        assert await reader.read(0.02) == []
        assert not reader.ended
        written(world.create("t")[0], 3)
        assert await collect(reader, 3) == [(0, 0), (0, 1), (0, 2)]


async def test_nothing_is_read_of_a_topic_whose_end_is_where_the_reading_begins() -> None:
    async with reading(world_of(7), from_offsets=(7,)) as reader:
        assert await collect(reader) == []
        assert reader.next_offsets == (7,)


@pytest.mark.parametrize("dies", [False, True])
async def test_a_change_of_leaders_neither_loses_nor_doubles(dies: bool) -> None:
    """Nor does it when the old leader is gone without a word."""
    world = world_of(1_000)
    (log,) = logs_of(world)
    async with reading(world) as reader:
        found: list[tuple[int, int]] = []
        for _ in range(6):
            found += await collect(reader, 100)
            if dies:
                world.dead.clear()
                world.kill(log.leader)
            log.lead(2 if log.leader == 1 else 1)
        found += await collect(reader)
    assert found == [(0, n) for n in range(1_000)]


async def test_nothing_is_fetched_while_the_buffer_is_full() -> None:
    """Bounded memory: a slow reader slows the fetches, and nothing else."""
    world = LogWorld()
    (log,) = world.create("t")
    for _ in range(100):
        log.write(1, value=b"x" * (BUFFER_BYTES_MAX // 20))
    async with reading(world) as reader:
        await eventually(lambda: log.read_from >= 20 - RECORDS_BYTES_MAX * 20 // BUFFER_BYTES_MAX)
        rested_at = -1
        while rested_at != log.read_from:  # until it rests
            rested_at = log.read_from
            for _ in range(100):
                await asyncio.sleep(0)
        assert rested_at * len(log.batches[0]) <= BUFFER_BYTES_MAX + RECORDS_BYTES_MAX
        await collect(reader, 30)
        await eventually(lambda: log.read_from > rested_at)


async def test_next_offsets_are_behind_returned_records_and_not_behind_waiting_ones() -> None:
    """Otherwise a reader that continues there would miss records that this one fetched and never returned."""
    world = world_of(20, 20)
    async with reading(world, from_offsets=(5, 10)) as reader:
        assert reader.next_offsets == (5, 10)
        first = (await reader.read(5))[0].partition
        await eventually(lambda: all(log.read_from == 20 for log in logs_of(world)))
        assert reader.next_offsets == ((10, 10) if first == 0 else (5, 20))
        await collect(reader)
        assert reader.next_offsets == (20, 20)


@pytest.mark.parametrize(
    ("since_ms", "first"),
    [
        (CLOCKS_APART_MS_MAX, 0),
        (CLOCKS_APART_MS_MAX + 1_001, 10),
        (CLOCKS_APART_MS_MAX + 4_000, 20),
        (CLOCKS_APART_MS_MAX + 4_001, 30),
    ],
)
async def test_since_begins_near_the_time_and_not_at_the_start(since_ms: int, first: int) -> None:
    """A reading of the last minutes does not cost the whole week. If no record is that recent, the next one
    is the first."""
    world = LogWorld()
    (log,) = world.create("t")
    for timestamp_ms in (1_000, 2_000, 4_000):
        log.write(BATCH, timestamp_ms=timestamp_ms)
    async with reading(world, since_ms=since_ms) as reader:
        assert await collect(reader) == [(0, n) for n in range(first, 30)]


async def test_a_reading_continues_at_the_first_record_that_retention_left() -> None:
    world = world_of(50)
    logs_of(world)[0].forget(30)
    async with reading(world, from_offsets=(10,)) as reader:
        assert await collect(reader) == [(0, n) for n in range(30, 50)]


@pytest.mark.parametrize("follow", [False, True])
async def test_an_offset_behind_the_end_is_an_error(follow: bool) -> None:
    async with reading(world_of(50), from_offsets=(51,), follow=follow) as reader:
        with pytest.raises(OffsetOutOfRange, match="51"):
            await collect(reader)


@pytest.mark.parametrize("follow", [False, True])
async def test_offsets_that_do_not_fit_the_topic_are_refused(follow: bool) -> None:
    async with reading(world_of(5, 5), from_offsets=(1,), follow=follow) as reader:
        with pytest.raises(InvalidRequest, match="2 partitions"):
            await collect(reader)


@pytest.mark.parametrize("undecodable", [False, True])
async def test_records_from_before_an_error_are_delivered_first(undecodable: bool) -> None:
    """CORRECTNESS E15: a damaged batch is an error, each time, and the position stays before it."""
    world = world_of(50)
    batches = logs_of(world)[0].batches
    good = batches[2]
    batches[2] = assemble(BatchHeader.parse(good), b"\xff") if undecodable else good[:-1] + b"\xff"
    async with reading(world) as reader:
        found: list[int] = []
        for _ in range(2):
            with pytest.raises(UndecodableBatch, match="20"):
                while True:
                    found += [record.offset for record in await reader.read(1)]
        assert reader.next_offsets == (20,)
    assert found == list(range(20))


async def test_a_partition_without_a_leader_is_waited_for_and_not_forever() -> None:
    world = world_of(20)
    async with reading(world, FastClock()) as reader:
        logs_of(world)[0].lead(NO_BROKER)
        with pytest.raises(LeaderNotAvailable, match="t-0"):
            while True:
                await reader.read(0.01)


async def test_partitions_that_come_later_are_followed_too() -> None:
    """The view of the cluster is refreshed when a leader is asked for; what grew is seen with it."""
    world = world_of(5)
    async with reading(world, follow=True, metadata_max_age_ms=100) as reader:
        assert await collect(reader, 5) == [(0, n) for n in range(5)]
        logs_of(world).append(written(Log(), 5))
        assert await collect(reader, 5) == [(1, n) for n in range(5)]
        assert reader.next_offsets == (5, 5)


async def test_a_log_that_has_lost_records_is_read_on_where_it_was_cut() -> None:
    """KIP-320: also if it has grown again since; its new records there would be left out."""
    world = world_of(30)
    (log,) = logs_of(world)
    async with reading(world, follow=True) as reader:
        assert await collect(reader, 30) == [(0, offset) for offset in range(30)]
        log.cut(20)
        log.lead(2)
        written(log, 30)
        assert await collect(reader, 30) == [(0, offset) for offset in range(20, 50)]


class Withheld(Log):
    """Its leader sends the first two batches, one at a time, and no other."""

    def fetch(self, wanted: FetchPartition) -> Fetched:
        if wanted.offset >= 2 * BATCH:
            return Fetched(wanted.name, None, self.high_watermark, self.start)
        return super().fetch(wanted._replace(bytes_max=1))


async def test_a_reading_ends_where_the_log_was_cut_meanwhile() -> None:
    """What is lost is not waited for."""
    log = written(Withheld(), 30)
    world = LogWorld()
    world.topics["t"] = "first", [log]
    async with reading(world) as reader:
        assert await collect(reader, 20) == [(0, offset) for offset in range(20)]
        assert not reader.ended
        log.cut(20)
        log.lead(2)
        assert await collect(reader) == []
        assert reader.next_offsets == (20,)


async def test_a_topic_that_was_made_anew_is_read_from_its_first_record(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CORRECTNESS G19: also if it is longer than the one before, of which an offset was known."""
    world = world_of(30)
    async with reading(world, follow=True) as reader:
        assert await collect(reader, 30) == [(0, offset) for offset in range(30)]
        with caplog.at_level(logging.WARNING):
            written(world.create("t", topic_id="second", epoch=5)[0], 50)
            assert await collect(reader, 50) == [(0, offset) for offset in range(50)]
        assert "topic id second instead of first" in caplog.text
        assert reader.next_offsets == (50,)
