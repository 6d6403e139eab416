"""One page of records, and one record."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from strandline.client.admin.admin import Admin
from strandline.config.limits import MIB
from strandline.console.clients import Clients
from strandline.console.core.records.asked import Ends, From, first_offset, notes
from strandline.console.core.records.rows import Fields
from strandline.console.records.reading import (
    Readers,
    Row,
    Undecodable,
    check_topic,
    ends_of,
    offset_of_time,
    rows_until,
)
from strandline.errors import LeaderNotAvailable, ResourceNotFound, UnknownTopicOrPartition
from strandline.ids import NO_BROKER, NO_TOPIC_ID, TopicId, TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.log_position import LogPosition
from strandline.vocabulary.metadata import TopicMetadata

PAGE_BYTES_MAX: Final = 4 * MIB
"""Keys and values of one page; it has at least one record, however large."""


@dataclass(frozen=True, slots=True)
class Part:
    """Where to read: `at` is an offset, or milliseconds since 1970 for a time. `topic_id`: only in this
    topic; NO_TOPIC_ID: in the one that has the name."""

    name: TopicPartition
    where: From
    at: int
    count: int
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class RecordsPage:
    """Records of a topic from `first` on, up to `next_offset`, and what a reader has to know of them."""

    topic_id: TopicId
    ends: Ends
    first: int
    next_offset: int
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    compacts: bool


async def log_of(admin: Admin, name: TopicPartition, topic_id: TopicId) -> tuple[TopicMetadata, Ends]:
    """The topic of a partition, and where its log starts and ends; `topic_id` as of `Part`.

    Raises UnknownTopicOrPartition, AnotherTopic, the error of its leader, and LeaderNotAvailable at once if
    no broker leads it: no client could read its records.
    """
    topic = await _led_topic(admin, name, topic_id)
    try:
        return topic, await ends_of(admin, name, topic.topic_id)
    except (LeaderNotAvailable, UnknownTopicOrPartition):
        # The broker that led it does not answer for it: the topic may have been deleted since it was read.
        await _led_topic(admin, name, topic.topic_id)
        raise


async def _led_topic(admin: Admin, name: TopicPartition, topic_id: TopicId) -> TopicMetadata:
    """The topic of a partition that has a leader."""
    (topic,) = (await admin.metadata([name.topic])).topics
    check_topic(name, topic_id, topic.topic_id)
    if name.partition >= len(topic.partitions):
        raise UnknownTopicOrPartition(
            f"{name.topic} has partitions 0 to {len(topic.partitions) - 1}, there is no {name.partition}"
        )
    if topic.partitions[name.partition].leader == NO_BROKER:
        raise LeaderNotAvailable(f"{name} has no leader now: its records cannot be read until one is elected")
    return topic


async def offset_asked(admin: Admin, part: Part, topic_id: TopicId) -> int:
    """Its `at` as an offset of this topic; -1: no record is that recent."""
    return await offset_of_time(admin, part.name, topic_id, part.at) if part.where is From.TIME else part.at


async def read_page(readers: Readers, clients: Clients, clock: Clock, part: Part) -> RecordsPage:
    """Raises UnknownTopicOrPartition, LeaderNotAvailable, the refusal of an ACL, …"""
    topic, ends = await log_of(clients.admin, part.name, part.topic_id)
    at = await offset_asked(clients.admin, part, topic.topic_id)
    first = first_offset(part.where, at, part.count, ends)
    rows: list[Row] = []
    end = first
    if first < ends.high_watermark:
        async with readers.reader(clients, part.name, LogPosition(first, topic.topic_id)) as coming:
            rows = await _some(rows_until(coming, ends.high_watermark, clock), part.count)
            end = rows[-1].next_offset if rows else await coming.position()
    compacts = "compact" in topic.config.get("cleanup.policy", "")
    said = notes(part.where, at, ends, first, [row.offset for row in rows], compacts=compacts)
    if not rows and end < ends.high_watermark:
        said.append("The leader sent no record in time: load the page again.")
    return RecordsPage(topic.topic_id, ends, first, end, tuple(rows), tuple(said), compacts)


async def _some(coming: AsyncGenerator[list[Row], None], count: int) -> list[Row]:
    """The first rows, at most `count` and, but for the first one, PAGE_BYTES_MAX."""
    rows: list[Row] = []
    left = PAGE_BYTES_MAX
    async with aclosing(coming):
        async for some in coming:
            for row in some:
                if rows and row.size > left:
                    return rows
                rows.append(row)
                left -= row.size
                if len(rows) == count:
                    return rows
    return rows


async def read_one(
    readers: Readers, clients: Clients, clock: Clock, name: TopicPartition, at: LogPosition
) -> tuple[TopicId, Fields]:
    """The record at an offset, and the id of its topic. Raises ResourceNotFound, which says why there is
    none, and as `read_page`."""
    offset = at.offset
    page = await read_page(readers, clients, clock, Part(name, From.OFFSET, offset, 1, at.topic_id))
    row = page.rows[0] if page.rows else None
    if isinstance(row, Fields) and row.offset == offset:
        return page.topic_id, row
    if isinstance(row, Undecodable):
        raise ResourceNotFound(row.message)
    raise ResourceNotFound(" ".join((f"{name} has no record at offset {offset}.", *page.notes)))
