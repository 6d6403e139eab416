"""Searches the last records of a partition, a slice a request, so that a page can show how far it is."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from strandline.config.limits import MIB
from strandline.console.clients import Clients
from strandline.console.core.records.needle import HITS_MAX, Needle, Progress
from strandline.console.records.pages import log_of
from strandline.console.records.reading import Readers, Row, Undecodable, rows_until
from strandline.ids import TopicPartition
from strandline.ports import Clock

SLICE_S_MAX: Final = 2.0
SLICE_BYTES_MAX: Final = 32 * MIB


@dataclass(frozen=True, slots=True)
class Slice:
    """The hits of one slice, and how far the search is after it."""

    hits: tuple[Row, ...]
    progress: Progress
    stuck: bool = False
    """The leader sent nothing in time."""


async def begin(clients: Clients, name: TopicPartition, last: int) -> Progress:
    """A search of the last records: of the offsets, of which compaction may have removed some. Raises
    UnknownTopicOrPartition, LeaderNotAvailable, …"""
    _, ends = await log_of(clients.admin, name)
    start = max(ends.start, ends.high_watermark - last)
    return Progress(start, start, ends.high_watermark, 0)


async def search(
    readers: Readers, clients: Clients, clock: Clock, name: TopicPartition, needle: Needle, so_far: Progress
) -> Slice:
    """Search on, for SLICE_S_MAX and SLICE_BYTES_MAX at most."""
    hits, at, read, is_full = list[Row](), so_far.at, 0, False
    if so_far.done:
        return Slice((), so_far)
    until = clock.monotonic() + SLICE_S_MAX
    async with (
        readers.reader(clients, name, so_far.at) as source,
        aclosing(rows_until(source, so_far.end, clock, idle_s=SLICE_S_MAX)) as coming,
    ):
        async for rows in coming:
            for row in rows:
                read, at = read + row.size, row.next_offset
                if isinstance(row, Undecodable) or needle.is_in(row.parts):
                    hits.append(row)
                if is_full := so_far.hits + len(hits) >= HITS_MAX:
                    break
            if is_full or clock.monotonic() >= until or read >= SLICE_BYTES_MAX:
                break
        if not is_full:  # the log may have no records up to where the reader is
            at = max(at, min(await source.position(), so_far.end))
    progress = Progress(so_far.start, at, so_far.end, so_far.hits + len(hits))
    return Slice(tuple(hits), progress, stuck=at == so_far.at)
