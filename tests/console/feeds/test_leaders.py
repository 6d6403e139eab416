"""Browsers that look at one page share what leaders say, if they have the same rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from strandline.console.feeds.leaders import Leaders
from strandline.console.feeds.shared_answers import AGE_S, KEPT_MAX
from strandline.ids import TopicPartition
from strandline.testing import MemoryCluster
from tests.hand_clock import HandClock
from tests.waiting import eventually

NAMES = [TopicPartition("orders", partition) for partition in range(3)]


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=1) as cluster:
        await cluster.create_topic("orders", partitions=len(NAMES))
        yield cluster


async def test_those_who_look_at_once_share_one_answer_until_it_is_old(cluster: MemoryCluster) -> None:
    clock = HandClock()
    leaders = Leaders(clock)
    async with cluster.admin() as admin:
        async with asyncio.TaskGroup() as tasks:
            looking = [tasks.create_task(leaders.describe(admin, NAMES)) for _ in range(10)]
        first = looking[0].result()
        assert set(first) == set(NAMES) and all(each.result() is first for each in looking)
        clock.now_s += AGE_S / 2
        assert await leaders.describe(admin, NAMES) is first
        clock.now_s += AGE_S / 2
        assert await leaders.describe(admin, NAMES) is not first


async def test_the_rate_of_a_topic_is_not_of_the_one_that_had_its_name(cluster: MemoryCluster) -> None:
    clock, name = HandClock(), TopicPartition("anew", 0)
    leaders = Leaders(clock)
    async with cluster.admin() as admin, cluster.producer() as producer:

        async def told() -> int | None:
            clock.now_s += AGE_S
            found = (await leaders.describe(admin, [name])).get(name)
            return None if found is None else found.log_end_offset

        for records in (1, 9):
            await cluster.create_topic("anew")
            for _ in range(records):
                await producer.send_and_wait("anew", b"")
            assert await eventually(told, what="its leader answers") == records
            assert leaders.rates.of(name) is None
            if records == 1:
                await admin.delete_topics(["anew"])
        assert await eventually(told, what="its leader answers") == 9
        rate = leaders.rates.of(name)
        assert rate is not None and rate.records == 0


async def test_another_client_asks_for_itself(cluster: MemoryCluster) -> None:
    leaders = Leaders(HandClock())
    async with cluster.admin() as one, cluster.admin() as other:
        first = await leaders.describe(one, NAMES)
        assert await leaders.describe(other, NAMES) is not first
        assert await leaders.describe(one, NAMES) is first


async def test_one_who_leaves_while_leaders_are_asked_takes_nobody_along(cluster: MemoryCluster) -> None:
    leaders = Leaders(HandClock())
    async with cluster.admin() as admin, asyncio.TaskGroup() as tasks:
        leaving = tasks.create_task(leaders.describe(admin, NAMES))
        staying = tasks.create_task(leaders.describe(admin, NAMES))
        await asyncio.sleep(0)
        leaving.cancel()
        assert set(await staying) == set(NAMES)


async def test_answers_are_few(cluster: MemoryCluster) -> None:
    leaders = Leaders(HandClock())
    async with cluster.admin() as admin:
        first = await leaders.describe(admin, NAMES)
        for number in range(KEPT_MAX):
            await leaders.describe(admin, NAMES[:1] * (number + 1))
        assert await leaders.describe(admin, NAMES) is not first
