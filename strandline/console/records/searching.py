"""Searches the last records of a partition, a slice a request, so that a page can show how far it is."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from strandline.config.limits import MIB
from strandline.console.clients import Clients
from strandline.console.core.records.asked import Ends
from strandline.console.core.records.needle import HITS_MAX, Needle, Progress
from strandline.console.records.reading import Readers, Row, Rows, Undecodable, rows_until
from strandline.ids import TopicId, TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.log_position import LogPosition

SLICE_S_MAX: Final = 2.0
SLICE_BYTES_MAX: Final = 32 * MIB
CHEAP: Final = 16
"""A window of less than this part of a slice is followed by a larger one."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The hits of one slice, and how far the search is after it."""

    hits: tuple[Row, ...]
    progress: Progress
    stuck: bool = False
    """The leader sent nothing in time."""


def begin(ends: Ends, last: int) -> Progress:
    """A search of the last records: of the offsets, of which compaction may have removed some."""
    start = max(ends.start, ends.high_watermark - last)
    return Progress(start, max(start, ends.high_watermark), ends.high_watermark, 0)


async def search(
    readers: Readers,
    clients: Clients,
    clock: Clock,
    name: TopicPartition,
    topic_id: TopicId,
    needle: Needle,
    so_far: Progress,
) -> Slice:
    """Search on, from the newest records to older ones, for SLICE_S_MAX and SLICE_BYTES_MAX at most. Raises
    AnotherTopic once the topic is not the one with this id."""
    hits = list[Row]()
    progress = so_far
    until_s, left = clock.monotonic() + SLICE_S_MAX, SLICE_BYTES_MAX
    if progress.done:
        return Slice((), progress)
    async with readers.reader(clients, name, LogPosition(progress.next[0], topic_id)) as source:
        while True:
            began_s = clock.monotonic()
            first, _ = progress.next
            source.seek(first)
            found = await _window(source, progress, clock, needle, until_s, left)
            if not found.whole:
                is_first, stuck = progress is so_far, found.at <= first
                progress = progress.narrowed() if is_first and not stuck else progress
                return Slice(tuple(hits), progress, stuck=stuck)
            now_s = clock.monotonic()
            cheap = found.size <= SLICE_BYTES_MAX / CHEAP and now_s - began_s <= SLICE_S_MAX / CHEAP
            progress = progress.after(len(found.hits), cheap=cheap)
            hits += reversed(found.hits)
            left -= found.size
            if progress.done or found.size >= left or now_s >= until_s:
                return Slice(tuple(hits[: HITS_MAX - so_far.hits]), progress)


@dataclass(slots=True)
class _Window:
    """The hits of a window in the order of the log, how much was read, up to where, and if that is all."""

    hits: list[Row]
    size: int = 0
    at: int = 0
    whole: bool = False


async def _window(
    source: Rows, progress: Progress, clock: Clock, needle: Needle, until_s: float, size_max: int
) -> _Window:
    first, end = progress.next
    found = _Window([])
    async with aclosing(rows_until(source, end, clock, idle_s=SLICE_S_MAX)) as coming:
        async for rows in coming:
            for row in rows:
                found.size += row.size
                begins_here = row.offset >= first or first == progress.start  # a batch that cannot be decoded
                if begins_here and (isinstance(row, Undecodable) or needle.is_in(row.parts)):
                    found.hits.append(row)
            if found.size >= size_max or clock.monotonic() >= until_s:
                break
    found.at = await source.position()
    found.whole = found.at >= end
    return found
