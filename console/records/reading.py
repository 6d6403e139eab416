"""Reads a part of one partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from strandline.client.admin.admin import Admin
from strandline.config.limits import KIB, MIB
from strandline.console.clients import Clients
from strandline.console.core.places import Places
from strandline.console.core.records.asked import Ends
from strandline.console.core.records.rows import Fields
from strandline.consumer.consumer import Consumer
from strandline.errors import (
    LeaderNotAvailable,
    StrandlineError,
    ThrottlingQuotaExceeded,
    UndecodableBatch,
)
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.log import EARLIEST, ListedOffset

READERS_MAX: Final = 16
"""Consumers that read for pages at the same time."""
READERS_OF_ONE_MAX: Final = 8
"""Those of one address."""
LEADER_S_MAX: Final = 3.0
"""How long a page waits for a leader to say where its log starts and ends."""
POLL_MS: Final = 200
IDLE_S_MAX: Final = 3.0
"""A part that should be there and does not come for this long: the reading ends with what it has."""
POLL_RECORDS_MAX: Final = 500
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


class Readers:
    """Bounds how many consumers read at the same time, and how many of one address."""

    def __init__(self) -> None:
        self._places = Places(READERS_MAX, READERS_OF_ONE_MAX)

    @asynccontextmanager
    async def reader(self, clients: Clients, name: TopicPartition, offset: int) -> AsyncIterator[Consumer]:
        """A consumer of one partition, from an offset on; it is closed at the end.

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
                consumer.seek(name, offset)
                yield consumer


async def ends_of(admin: Admin, name: TopicPartition) -> Ends:
    """Where the log starts and ends. Raises the error of its leader, such as LeaderNotAvailable."""
    listed = await _listed(admin, name, EARLIEST)
    return Ends(listed.log_start_offset, listed.high_watermark, listed.log_end_offset)


async def offset_of_time(admin: Admin, name: TopicPartition, at_ms: int) -> int:
    """The offset of the first record that is not older; -1: there is none."""
    return (await _listed(admin, name, at_ms)).offset


async def _listed(admin: Admin, name: TopicPartition, timestamp_ms: int) -> ListedOffset:
    try:
        async with asyncio.timeout(LEADER_S_MAX):
            answer = (await admin.list_offsets({name: timestamp_ms}))[name]
    except TimeoutError:
        raise LeaderNotAvailable(f"{name}: its leader does not answer now; load the page again") from None
    if isinstance(answer, StrandlineError):
        raise answer
    if answer.error is not None:
        raise answer.error
    return answer


async def next_rows(consumer: Consumer, name: TopicPartition, count: int) -> list[Row]:
    """The rows that arrive within POLL_MS, at most `count`; a batch that cannot be decoded is one row."""
    try:
        found = await consumer.getmany(name, timeout_ms=POLL_MS, max_records=count)
    except UndecodableBatch as error:
        consumer.seek(name, error.next_offset)
        return [Undecodable(error.offset, error.next_offset, error.message)]
    return [Fields(*record) for record in found.get(name, ())]


async def rows_until(
    consumer: Consumer, name: TopicPartition, end: int, clock: Clock, *, idle_s: float = IDLE_S_MAX
) -> AsyncGenerator[list[Row], None]:
    """The rows below the offset `end`, some at a time, also none while it waits. Ends early if none comes for
    `idle_s`: close it, and see the consumer's position."""
    came_at = clock.monotonic()
    while await consumer.position(name) < end:
        rows = await next_rows(consumer, name, POLL_RECORDS_MAX)
        now = clock.monotonic()
        if rows:
            came_at = now
        elif now - came_at >= idle_s:
            return
        yield [row for row in rows if row.offset < end]
