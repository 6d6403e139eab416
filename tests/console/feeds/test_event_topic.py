"""Reading a topic of events: from its end, live, further back, and again after every failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from strandline import Consumer
from strandline.adapters.system.clock import SystemClock
from strandline.console.core.timeline.places import Source, pack
from strandline.console.core.window import Window
from strandline.console.feeds.event_topic import FOLLOWING, EventTopic
from strandline.testing import MemoryCluster
from tests.waiting import eventually

STATE_CHANGES = "__state_changes"
EVENTS_OF_A_START = 4
"""Of each partition until it is led: its request and what became of it, and the election."""


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=1) as cluster:
        yield cluster


@asynccontextmanager
async def reading(
    cluster: MemoryCluster,
    *,
    first_records: int = 5_000,
    window: Window | None = None,
    topic_id: Callable[[str], str | None] = lambda _: None,
) -> AsyncIterator[tuple[EventTopic, Window]]:
    """A feed of state changes that runs."""
    made = window or Window()

    def new_consumer() -> Consumer:
        return cluster.consumer(offset_reset="none")

    topic = EventTopic(Source.STATE, made, new_consumer, SystemClock(), topic_id, first_records)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(topic.run())
        yield topic, made
        task.cancel()


async def test_it_begins_near_the_end_and_reads_back_on_demand(cluster: MemoryCluster) -> None:
    for number in range(4):
        await cluster.create_topic(f"t{number}", partitions=2)
    names = [f"t{number}-{partition}" for number in range(4) for partition in range(2)]
    all_of_them = dict.fromkeys([*names, f"{STATE_CHANGES}-0"], EVENTS_OF_A_START)
    async with reading(cluster) as (_, everything):
        await eventually(lambda: _counts(everything) == all_of_them)
        oldest_ms = everything.kept_from(Source.STATE)
    assert oldest_ms is not None
    async with reading(cluster, first_records=5) as (topic, window):
        await eventually(lambda: topic.state == FOLLOWING and window.count(Source.STATE) > 0)
        assert not topic.complete and window.count(Source.STATE) <= 5
        assert window.found(pack(Source.STATE, 0, 0)) is None
        one = await topic.read_one(0, 0)
        assert one is not None and one.offset == 0, "one record can be had without reading back"
        topic.further_back(oldest_ms)
        assert topic.reading_back
        await eventually(lambda: not topic.reading_back)
        assert topic.complete and window.kept_from(Source.STATE) == oldest_ms
        assert _counts(window) == all_of_them
        topic.further_back(0)
        assert not topic.reading_back, "there is nothing older"


async def test_what_happens_is_there_at_once(cluster: MemoryCluster) -> None:
    await cluster.create_topic("first")
    async with reading(cluster) as (topic, window):
        await eventually(lambda: topic.state == FOLLOWING)
        await cluster.create_topic("second")
        await eventually(lambda: window.rows.partitions.get((False, "second", 0)) is not None)


async def test_a_window_without_room_is_complete(cluster: MemoryCluster) -> None:
    await cluster.create_topic("orders", partitions=4)
    async with reading(cluster, first_records=5, window=Window(events_kept=5)) as (topic, window):
        await eventually(lambda: window.count(Source.STATE) >= 5)
        assert topic.complete
        topic.further_back(0)
        assert not topic.reading_back


async def test_a_topic_that_is_not_there_yet_is_waited_for() -> None:
    async with MemoryCluster(brokers=1) as cluster, reading(cluster) as (topic, window):
        await eventually(lambda: "there is no such topic yet" in topic.state)
        assert window.kept_from(Source.STATE) is None and not topic.complete
        await cluster.create_topic("orders")
        await eventually(lambda: topic.state == FOLLOWING and window.count(Source.STATE) > 0)


async def test_a_broker_that_is_gone_for_a_while_is_waited_for(cluster: MemoryCluster) -> None:
    await cluster.create_topic("orders")
    async with reading(cluster) as (topic, window):
        await eventually(lambda: window.count(Source.STATE) > 0)
        cluster.kill(1)
        cluster.start(1)
        await eventually(lambda: cluster.leader("orders", 0) == 1)
        await cluster.create_topic("after")
        await eventually(lambda: window.rows.partitions.get((False, "after", 0)) is not None)
        assert topic.state == FOLLOWING


async def test_it_says_up_to_when_events_are_read(cluster: MemoryCluster) -> None:
    clock = SystemClock()
    await cluster.create_topic("orders")
    async with reading(cluster) as (topic, window):
        began_ms = clock.wall_ms()
        await eventually(lambda: (topic.read_until_ms or 0) > began_ms)
        cluster.kill(1)
        killed_ms = clock.wall_ms()
        await eventually(lambda: clock.wall_ms() > killed_ms)
        assert (topic.read_until_ms or 0) <= killed_ms
        cluster.start(1)
        await cluster.create_topic("after")
        created_ms = clock.wall_ms()
        await eventually(lambda: (topic.read_until_ms or 0) > created_ms)
        assert window.rows.partitions.get((False, "after", 0)) is not None


async def test_a_topic_that_is_another_one_is_read_anew(cluster: MemoryCluster) -> None:
    await cluster.create_topic("orders")
    ids = {STATE_CHANGES: "one"}
    async with reading(cluster, topic_id=ids.get) as (topic, window):
        await eventually(lambda: window.rows.partitions.get((False, "orders", 0)) is not None)
        rows = window.rows.partitions
        ids[STATE_CHANGES] = "another"
        await eventually(lambda: window.rows.partitions is not rows)
        await eventually(lambda: window.rows.partitions.get((False, "orders", 0)) is not None)
        assert topic.state == FOLLOWING


def _counts(window: Window) -> dict[str, int]:
    """The number of events by partition."""
    return {row.name: len(row.events) for row in window.rows.partitions}
