"""A reader of an internal topic against brokers that do what real ones cannot be made to do on time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from strandline.adapters.codecs.log import FETCH, LIST_OFFSETS, METADATA, PARTITION_COUNTS
from strandline.client.events.reader import BUFFER_BYTES_MAX, EventReader
from strandline.errors import (
    BrokerNotAvailable,
    CorruptMessage,
    InvalidRequest,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    OutcomeUnknown,
    StrandlineError,
)
from strandline.ids import NO_BROKER, TopicId
from strandline.ports import Method, Request, Response, Stream
from strandline.records import encode_values, validate
from strandline.records.header import STAMP_BYTES, stamp
from strandline.vocabulary.log import (
    EARLIEST,
    LATEST,
    FetchAnswer,
    Fetched,
    FetchPartition,
    FetchRequest,
    ListedOffset,
    MetadataAnswer,
    MetadataQuery,
    OffsetQuery,
)
from strandline.vocabulary.log_position import EpochEnd
from strandline.vocabulary.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from tests.strandline.client.network import FastClock, endpoint
from tests.waiting import eventually

BATCH = 10


class Log:
    """One partition, in batches of ten; every broker that leads it has all of it."""

    def __init__(self, records: int = 0, start: int = 0) -> None:
        self.leader = 1
        self.epoch = 1
        self.start = start
        self.end = records
        self.lost: EpochEnd | None = None
        """Where the log parts from what readers of earlier epochs have read."""

    def lead(self, broker: int) -> None:
        self.leader, self.epoch = broker, self.epoch + 1

    def listed(self, query: OffsetQuery) -> ListedOffset:
        offset = {EARLIEST: self.start, LATEST: self.end}.get(query.timestamp_ms, -1)
        return ListedOffset(query.name, None, offset, -1, self.epoch, self.end, self.start, self.end)

    def read(self, offset: int) -> bytes:
        first = offset - offset % BATCH
        count = min(BATCH, self.end - first)
        values = [str(number).encode() for number in range(first, first + count)]
        if offset >= self.end:
            return b""
        batch = encode_values(values, 0, base_offset=first)
        (header,) = validate(batch)
        return stamp(header, base_offset=first, leader_epoch=self.epoch) + batch[STAMP_BYTES:]


class Brokers:
    """`Transport` to brokers 1 and 2. `fails` may answer a fetch of one partition in its own way."""

    def __init__(self, *logs: Log) -> None:
        self.logs = list(logs)
        self.fetches = 0
        self.dead: set[int] = set()
        self.fails: Callable[[int, FetchPartition], StrandlineError | EpochEnd | bytes | None] = (
            lambda _broker, _wanted: None
        )

    def _metadata(self) -> MetadataAnswer:
        partitions = tuple(
            PartitionMetadata(number, log.leader, log.epoch, (1, 2), (1, 2))
            for number, log in enumerate(self.logs)
        )
        topics = (TopicMetadata("t", TopicId("0" * 32), partitions),) if partitions else ()
        return MetadataAnswer(ClusterMetadata("c", (endpoint(1), endpoint(2)), None, topics), {})

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        await asyncio.sleep(0)
        broker = int(address[len("broker")])
        if broker in self.dead:
            raise BrokerNotAvailable(f"{address} is unreachable from here")
        asked: Any = request
        answer: Any
        if method.path == METADATA.path:
            assert isinstance(request, MetadataQuery)
            answer = self._metadata()
        elif method.path == PARTITION_COUNTS.path:
            answer = {"t": len(self.logs)} if self.logs else {}
        else:
            assert method.path == LIST_OFFSETS.path
            answer = [self.logs[query.name.partition].listed(query) for query in asked]
        return answer  # type: ignore[no-any-return]  # the method's own

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        assert method.path == FETCH.path
        broker = int(address[len("broker")])
        if broker in self.dead:
            raise BrokerNotAvailable(f"{address} is unreachable from here")
        stream: Any = FetchStream(self, broker)
        return stream  # type: ignore[no-any-return]  # the method's own

    async def close(self) -> None:
        self.logs.clear()

    def fetch(self, broker: int, request: FetchRequest) -> FetchAnswer:
        self.fetches += 1
        answers = []
        for wanted in request.partitions:
            log = self.logs[wanted.name.partition]
            failed = self.fails(broker, wanted)
            if failed is None and log.lost is not None and wanted.last_epoch < log.epoch:
                failed = log.lost if wanted.offset > log.lost.end_offset else None
            if failed is None and log.leader != broker:
                failed = NotLeaderOrFollower("it moved")
            if failed is None and not log.start <= wanted.offset <= log.end:
                failed = OffsetOutOfRange(f"offset {wanted.offset} is outside {log.start}..{log.end}")
            error = failed if isinstance(failed, StrandlineError) else None
            lost = failed if isinstance(failed, EpochEnd) else None
            empty = error is not None or lost is not None
            records = failed if isinstance(failed, bytes) else b"" if empty else log.read(wanted.offset)
            answers.append(Fetched(wanted.name, error, log.end, log.start, records, diverging=lost))
        return FetchAnswer(request.correlation_id, answers)


class FetchStream:
    """One stream to one broker; a long poll without records is a turn of the event loop."""

    def __init__(self, brokers: Brokers, broker: int) -> None:
        self._brokers = brokers
        self._broker = broker
        self._request: FetchRequest | None = None

    async def write(self, request: FetchRequest) -> None:
        self._request = request

    async def read(self) -> FetchAnswer:
        await asyncio.sleep(0)
        if self._broker in self._brokers.dead:
            raise OutcomeUnknown("the stream broke")
        assert self._request is not None
        return self._brokers.fetch(self._broker, self._request)

    def close(self) -> None:
        self._request = None


@asynccontextmanager
async def reading(brokers: Brokers, **asked: Any) -> AsyncIterator[EventReader]:
    given = {"follow": False, "request_timeout_ms": 1_000, **asked}
    async with EventReader(
        "broker1:9092,broker2:9092", "t", transport=brokers, clock=FastClock(), **given
    ) as r:
        yield r


async def collect(reader: EventReader, how_many: int | None = None) -> list[tuple[int, int]]:
    """(partition, offset) of all records until it ends, or of at least this number."""
    found: list[tuple[int, int]] = []
    async with asyncio.timeout(20):
        while not reader.ended and (how_many is None or len(found) < how_many):
            for record in await reader.read(0.05):
                assert record.value == str(record.offset).encode()
                found.append((record.partition, record.offset))
    return found


async def test_a_reading_ends_where_the_topic_ended_when_it_began() -> None:
    brokers = Brokers(Log(25), Log(5))
    async with reading(brokers) as reader:
        first = await reader.read(5)
        brokers.logs[0].end = 40
        found = [(record.partition, record.offset) for record in first] + await collect(reader)
        assert sorted(found) == [(0, n) for n in range(25)] + [(1, n) for n in range(5)]
        assert reader.next_offsets == (25, 5)
        assert await reader.read(0) == []


async def test_a_topic_that_is_not_there_is_empty_or_waited_for() -> None:
    brokers = Brokers()
    async with reading(brokers) as reader:
        assert await collect(reader) == []
        assert reader.next_offsets == ()
    async with reading(brokers, follow=True) as reader:
        assert await reader.read(0.02) == []
        assert not reader.ended
        brokers.logs.append(Log(3))
        assert await collect(reader, 3) == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("dies", [False, True])
async def test_a_change_of_leaders_neither_loses_nor_doubles(dies: bool) -> None:
    """Nor does it when the old leader is gone without a word."""
    brokers = Brokers(Log(1_000))
    async with reading(brokers) as reader:
        found: list[tuple[int, int]] = []
        for _ in range(6):
            found += await collect(reader, 100)
            log = brokers.logs[0]
            if dies:
                brokers.dead = {log.leader}
            log.lead(2 if log.leader == 1 else 1)
        found += await collect(reader)
    assert found == [(0, n) for n in range(1_000)]


async def test_nothing_is_fetched_while_the_buffer_is_full() -> None:
    """Bounded memory: a slow reader slows the fetches, and nothing else."""
    log = Log(1_000_000)
    brokers = Brokers(log)
    async with reading(brokers) as reader:
        await reader.read(5)
        await eventually(lambda: brokers.fetches > 1_000)
        size = len(log.read(0))
        before = -1
        while before != brokers.fetches:  # until it rests
            before = brokers.fetches
            for _ in range(100):
                await asyncio.sleep(0)
        assert brokers.fetches <= BUFFER_BYTES_MAX // size + 3
        await collect(reader, 20_000)
        await eventually(lambda: brokers.fetches > before)


async def test_a_reading_continues_at_the_first_record_that_retention_left() -> None:
    brokers = Brokers(Log(50, start=30))
    async with reading(brokers, from_offsets=(10,)) as reader:
        assert await collect(reader) == [(0, n) for n in range(30, 50)]


@pytest.mark.parametrize("follow", [False, True])
async def test_an_offset_behind_the_end_is_an_error(follow: bool) -> None:
    brokers = Brokers(Log(50))
    async with reading(brokers, from_offsets=(51,), follow=follow) as reader:
        with pytest.raises(OffsetOutOfRange, match="51"):
            await collect(reader)


@pytest.mark.parametrize("follow", [False, True])
async def test_offsets_that_do_not_fit_the_topic_are_refused(follow: bool) -> None:
    async with reading(Brokers(Log(5), Log(5)), from_offsets=(1,), follow=follow) as reader:
        with pytest.raises(InvalidRequest, match="2 partitions"):
            await collect(reader)


async def test_records_from_before_an_error_are_delivered_first() -> None:
    brokers = Brokers(Log(50))
    brokers.fails = lambda _broker, wanted: b"\0" * 80 if wanted.offset == 20 else None
    async with reading(brokers) as reader:
        found: list[int] = []
        with pytest.raises(CorruptMessage):
            while True:
                found += [record.offset for record in await reader.read(1)]
    assert found == list(range(20))


async def test_a_partition_without_a_leader_is_waited_for_and_not_forever() -> None:
    brokers = Brokers(Log(20))
    async with reading(brokers) as reader:
        await collect(reader, 10)
        brokers.fails = lambda _broker, _wanted: NotLeaderOrFollower("it stepped down")
        brokers.logs[0].lead(NO_BROKER)
        with pytest.raises(LeaderNotAvailable, match="t-0"):
            while True:
                await reader.read(0.01)


async def test_partitions_that_come_later_are_followed_too() -> None:
    """The view of the cluster is refreshed when a leader is asked for; what grew is seen with it."""
    brokers = Brokers(Log(5))
    async with reading(brokers, follow=True, metadata_max_age_ms=100) as reader:
        assert await collect(reader, 5) == [(0, n) for n in range(5)]
        brokers.logs.append(Log(5))
        assert await collect(reader, 5) == [(1, n) for n in range(5)]
        assert reader.next_offsets == (5, 5)


async def test_a_log_that_has_lost_records_is_read_on_where_it_was_cut() -> None:
    """KIP-320: also if it has grown again since; its new records there would be left out."""
    log = Log(30)
    brokers = Brokers(log)
    async with reading(brokers, follow=True) as reader:
        assert await collect(reader, 30) == [(0, offset) for offset in range(30)]
        log.lost, log.end = EpochEnd(1, 20), 50
        log.lead(2)
        assert await collect(reader, 30) == [(0, offset) for offset in range(20, 50)]
