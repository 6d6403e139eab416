"""Streams of records: an export as JSON lines, and the live tail of a partition."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import chain
from typing import Final

from strandline.config.limits import KIB, MIB
from strandline.console.clients import Clients
from strandline.console.records.reading import Readers, Row, Undecodable, rows_until
from strandline.errors import BrokerNotAvailable, InvalidRequest, StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.report.text.records import json_line, json_pieces, record_json
from strandline.vocabulary.log_position import LogPosition

EXPORT_RECORDS_MAX: Final = 1_000_000
EXPORT_BYTES_MAX: Final = 512 * MIB
EXPORT_IDLE_S: Final = 15.0
CHUNK_CHARS: Final = 256 * KIB
TAIL_ROWS_MAX: Final = 100
"""Records that one step of a live tail shows; of more, the first ones are left out and counted."""
TAIL_LAG_MAX: Final = 5_000
"""A live tail that is further behind goes on at the end of the log."""
TAIL_PAUSE_S: Final = 0.3


async def export(
    readers: Readers,
    clients: Clients,
    clock: Clock,
    name: TopicPartition,
    first: LogPosition,
    end: int,
    count: int,
) -> AsyncGenerator[bytes, None]:
    """The records from `first` up to `end` as JSON lines, at most `count` and EXPORT_BYTES_MAX.

    Where records are missing that should be there, a line with `error` says so: an incomplete export does not
    look complete. Raises a refusal only before the first line.
    """
    at = first.offset
    try:
        async with aclosing(_exported(readers, clients, clock, name, first, end, count)) as coming:
            async for rows in coming:
                for chunk in _chunks(name, rows):
                    yield chunk
                at = rows[-1].next_offset
    except StrandlineError as error:
        if at == first.offset:
            raise
        yield _error(name, at, f"the export ends here: {error.message}").encode()


async def _exported(
    readers: Readers,
    clients: Clients,
    clock: Clock,
    name: TopicPartition,
    first: LogPosition,
    end: int,
    count: int,
) -> AsyncGenerator[list[Row], None]:
    """The rows of an export, some at a time. Raises InvalidRequest or BrokerNotAvailable if it ends early."""
    left, bytes_left = count, EXPORT_BYTES_MAX
    async with readers.reader(clients, name, first) as source:
        async with aclosing(rows_until(source, end, clock, idle_s=EXPORT_IDLE_S)) as coming:
            async for found in coming:
                if rows := found[:left]:
                    yield rows
                left -= len(rows)
                bytes_left -= sum(row.size for row in rows)
                if not left:
                    return
                if bytes_left <= 0:
                    raise InvalidRequest(f"it has {EXPORT_BYTES_MAX:,} bytes; export the rest from here on")
        if await source.position() < end:
            raise BrokerNotAvailable("the leader sent no further record in time")


def _chunks(name: TopicPartition, rows: Sequence[Row]) -> Iterator[bytes]:
    """The lines of these rows, some or a part of one at a time."""
    pieces: list[str] = []
    chars = 0
    for piece in chain.from_iterable(_pieces(name, row) for row in rows):
        pieces.append(piece)
        chars += len(piece)
        if chars >= CHUNK_CHARS:
            yield "".join(pieces).encode()
            pieces, chars = [], 0
    yield "".join(pieces).encode()


def _pieces(name: TopicPartition, row: Row) -> Iterable[str]:
    if isinstance(row, Undecodable):
        return [_error(name, row.offset, row.message)]
    return json_pieces(record_json(row))


def _error(name: TopicPartition, offset: int, message: str) -> str:
    return json_line({"topic": name.topic, "partition": name.partition, "offset": offset, "error": message})


async def tail(
    readers: Readers,
    clients: Clients,
    clock: Clock,
    name: TopicPartition,
    first: LogPosition,
    is_over: Callable[[], bool],
) -> AsyncGenerator[tuple[list[Row], int], None]:
    """New records as they are committed, and how many were left out before them; none too, now and then."""
    async with readers.reader(clients, name, first) as source:
        while not is_over():
            left_out = 0
            lag = await source.lag()
            if lag > TAIL_LAG_MAX:
                left_out = lag - TAIL_ROWS_MAX
                source.seek(await source.position() + left_out)
            rows = await source.next(TAIL_LAG_MAX)
            yield rows[-TAIL_ROWS_MAX:], left_out + max(0, len(rows) - TAIL_ROWS_MAX)
            await clock.sleep(TAIL_PAUSE_S)
