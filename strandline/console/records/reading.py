"""Reads a part of one partition."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final

from strandline.client.admin.admin import Admin
from strandline.client.reading.open_batch import OpenBatch
from strandline.client.reading.records import FetchedBatch
from strandline.config.limits import KIB, MIB
from strandline.console.clients import Clients
from strandline.console.core.places import Places
from strandline.console.core.records.asked import Ends
from strandline.console.core.records.rows import Fields
from strandline.consumer.consumer import Consumer
from strandline.errors import (
    CorruptMessage,
    LeaderNotAvailable,
    StrandlineError,
    ThrottlingQuotaExceeded,
    UndecodableBatch,
    UnknownTopicOrPartition,
)
from strandline.ids import TopicId, TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.log import EARLIEST, ListedOffset
from strandline.vocabulary.log_position import LogPosition, is_foreign

READERS_MAX: Final = 16
"""Consumers that read for pages at the same time."""
READERS_OF_ONE_MAX: Final = 8
"""Those of one address."""
LEADER_S_MAX: Final = 3.0
"""How long a page waits for a leader to say where its log starts and ends."""
POLL_MS: Final = 200
IDLE_S_MAX: Final = 3.0
"""A part that should be there and does not come for this long: the reading ends with what it has."""
STEP_RECORDS_MAX: Final = 500
STEP_BYTES_MAX: Final = 4 * MIB
"""Keys, values and headers that are read at once, and what is left of one batch."""
BATCH_BYTES_MAX: Final = 16 * MIB
"""The decompressed records of one batch. A larger one is not decompressed, and its row says so: two
kilobytes of zstd may have 64 MiB."""
BATCH_RECORDS_MAX: Final = 500_000
"""The records of one batch: each takes about a hundred bytes beside its own."""
BUFFER_BYTES: Final = 2 * MIB
PAGE_FETCH_BYTES: Final = 256 * KIB


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A batch that cannot be decoded: no record of these offsets is shown."""

    offset: int
    next_offset: int
    message: str
    parts: tuple[()] = ()
    size: int = 0


Row = Fields | Undecodable


class AnotherTopic(UnknownTopicOrPartition):
    """The topic that was asked for was deleted, and another one has its name now."""

    def __init__(self, name: TopicPartition) -> None:
        super().__init__(f"this is of a topic {name.topic!r} that was deleted; another one has its name now")
        self.name = name


def check_topic(name: TopicPartition, wanted: TopicId, present: TopicId) -> None:
    """Raises AnotherTopic if both ids are known and differ."""
    if is_foreign(wanted, present):
        raise AnotherTopic(name)


class Rows:
    """The rows of one log, from a consumer's position on. What has arrived waits as it was sent: one batch at
    a time is decompressed. `position` and `next` raise AnotherTopic once another topic has the name."""

    def __init__(self, consumer: Consumer, name: TopicPartition, topic_id: TopicId) -> None:
        self._consumer = consumer
        self._name = name
        self._topic_id = topic_id
        self._waiting: deque[FetchedBatch] = deque()
        self._open: OpenBatch | None = None
        """The first batch that waits, once one of its records was taken."""
        self._at = 0
        """The offset of the next row, while batches wait."""

    async def position(self) -> int:
        """The offset of the next row to come."""
        if self._waiting:
            return self._at
        found = await self._consumer.position(self._name)
        self._check()
        return found

    def _check(self) -> None:
        """The consumer goes on at the first record of the present topic."""
        check_topic(self._name, self._topic_id, self._consumer.log(self._name).topic_id)

    async def lag(self) -> int:
        """The offsets up to the high watermark; 0 before the first answer of the leader."""
        highwater = self._consumer.highwater(self._name)
        return 0 if highwater is None else max(0, highwater - await self.position())

    def seek(self, offset: int) -> None:
        """Goes on at this offset."""
        self._waiting.clear()
        self._open = None
        self._consumer.seek(self._name, LogPosition(offset, self._topic_id))

    async def next(self, count: int) -> list[Row]:
        """The next rows, at most `count`, and STEP_BYTES_MAX but for the last batch; none if none arrives
        within POLL_MS. A batch that cannot be decoded, or is too large for a page, is one row."""
        rows: list[Row] = []
        size = 0
        while len(rows) < count and size < STEP_BYTES_MAX:
            if self._waiting:
                found = self._take(count - len(rows))
            elif rows or (not (found := await self._arrived()) and not self._waiting):
                break
            rows += found
            size += sum(row.size for row in found)
        return rows

    async def _arrived(self) -> list[Row]:
        """Waits for batches. The row of one that was damaged on its way, if that came instead."""
        try:
            arrived = await self._consumer.getbatches(self._name, timeout_ms=POLL_MS)
            self._check()
            self._waiting += arrived
        except UndecodableBatch as error:
            self.seek(error.next_offset)
            return [_undecodable(error)]
        if self._waiting:
            self._at = self._waiting[0].base_offset
        return []

    def _take(self, count: int) -> list[Row]:
        """The next rows of the first batch that waits; none if it has none."""
        batch = self._waiting[0]
        if self._open is None:
            try:
                self._open = _opened(batch)
            except UndecodableBatch as error:
                self._passed(batch)
                return [_undecodable(error)]
        rows: list[Row] = [Fields(*record) for record in islice(self._open.records, count)]
        if self._open.untaken:
            self._at = rows[-1].next_offset
        else:
            self._passed(batch)
        return rows

    def _passed(self, batch: FetchedBatch) -> None:
        self._waiting.popleft()
        self._open = None
        self._at = batch.next_offset


def _opened(batch: FetchedBatch) -> OpenBatch:
    """Raises UndecodableBatch."""
    if (count := batch.header.record_count) > BATCH_RECORDS_MAX:
        said = f"its batch has {count:,} records, a page reads batches of at most {BATCH_RECORDS_MAX:,}"
        raise batch.undecodable(CorruptMessage(said))
    return OpenBatch(batch, bytes_max=BATCH_BYTES_MAX)


def _undecodable(error: UndecodableBatch) -> Undecodable:
    return Undecodable(error.offset, error.next_offset, error.message)


class Readers:
    """Bounds how many consumers read at the same time, and how many of one address."""

    def __init__(self) -> None:
        self._places = Places(READERS_MAX, READERS_OF_ONE_MAX)

    @asynccontextmanager
    async def reader(self, clients: Clients, name: TopicPartition, at: LogPosition) -> AsyncIterator[Rows]:
        """The rows of the log that a position belongs to, from it on; their consumer is closed at the end.

        Raises ThrottlingQuotaExceeded beyond READERS_MAX, and beyond READERS_OF_ONE_MAX of one address.
        """
        if (missing := self._places.missing(clients.address)) is not None:
            raise ThrottlingQuotaExceeded(
                f"readers of records: {missing}: end a live tail or an export, or try again later"
            )
        with self._places.taken(clients.address):
            async with clients.consumer(
                client_id="strandline-console",
                offset_reset="none",
                buffer_bytes=BUFFER_BYTES,
                partition_fetch_bytes=PAGE_FETCH_BYTES,
                fetch_bytes=PAGE_FETCH_BYTES,
            ) as consumer:
                consumer.assign([name])
                consumer.seek(name, at)
                yield Rows(consumer, name, at.topic_id)


async def ends_of(admin: Admin, name: TopicPartition, topic_id: TopicId) -> Ends:
    """Where the log starts and ends. Raises the error of its leader, such as LeaderNotAvailable, and
    AnotherTopic."""
    listed = await _listed(admin, name, topic_id, EARLIEST)
    return Ends(listed.log_start_offset, listed.high_watermark, listed.log_end_offset)


async def offset_of_time(admin: Admin, name: TopicPartition, topic_id: TopicId, at_ms: int) -> int:
    """The offset of the first record that is not older; -1: there is none."""
    return (await _listed(admin, name, topic_id, at_ms)).offset


async def _listed(admin: Admin, name: TopicPartition, topic_id: TopicId, timestamp_ms: int) -> ListedOffset:
    try:
        async with asyncio.timeout(LEADER_S_MAX):
            answer = (await admin.list_offsets({name: timestamp_ms}))[name]
    except TimeoutError:
        raise LeaderNotAvailable(f"{name}: its leader does not answer now; load the page again") from None
    if isinstance(answer, StrandlineError):
        raise answer
    if answer.error is not None:
        raise answer.error
    check_topic(name, topic_id, answer.topic_id)
    return answer


async def rows_until(
    rows: Rows, end: int, clock: Clock, *, idle_s: float = IDLE_S_MAX
) -> AsyncGenerator[list[Row], None]:
    """The rows below the offset `end`, some at a time, also none while it waits. Ends early if none comes for
    `idle_s`: close it, and see the position of `rows`."""
    came_at = clock.monotonic()
    while await rows.position() < end:
        found = await rows.next(STEP_RECORDS_MAX)
        now = clock.monotonic()
        if found:
            came_at = now
        elif now - came_at >= idle_s:
            return
        yield [row for row in found if row.offset < end]
