"""What is seen of the cluster when only some topics are read again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from strandline import Admin
from strandline.adapters.system.clock import SystemClock
from strandline.console.feeds.cluster import ClusterFeed
from strandline.testing import MemoryCluster
from tests.waiting import eventually

SELDOM_MS = 60_000
"""What is read within a test without a change is read once."""


@pytest.fixture
async def admin() -> AsyncIterator[Admin]:
    async with MemoryCluster(brokers=1) as cluster, cluster.admin() as admin:
        for name in ("bills", "orders"):
            await admin.create_topic(name)
        yield admin


@asynccontextmanager
async def reading(admin: Admin, begun: asyncio.Event) -> AsyncIterator[ClusterFeed]:
    async def first() -> None:
        await begun.wait()

    feed = ClusterFeed(admin, SystemClock(), SELDOM_MS, SELDOM_MS, lambda: None, first)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(feed.run())
        yield feed
        task.cancel()


def sizes(feed: ClusterFeed) -> dict[str, int]:
    """The partitions of each topic that is not an internal one, in the order in which they are kept."""
    return {each.name: len(each.partitions) for each in feed.seen.topics if not each.name.startswith("__")}


async def test_only_what_has_changed_is_read_again(admin: Admin) -> None:
    begun = asyncio.Event()
    begun.set()
    async with reading(admin, begun) as feed:
        await eventually(lambda: sizes(feed) == {"bills": 1, "orders": 1})
        await admin.create_topic("added", 2)
        await admin.create_topic("other")
        await admin.delete_topics(["bills"])
        feed.topics_changed(["added", "orders"])
        await eventually(lambda: sizes(feed) == {"added": 2, "bills": 1, "orders": 1})
        feed.topics_changed(["bills", "other", "never-was"])
        await eventually(lambda: list(sizes(feed).items()) == [("added", 2), ("orders", 1), ("other", 1)])
        assert not feed.seen.problem and feed.seen.brokers


async def test_metadata_of_everything_is_not_asked_for_before_what_comes_first(admin: Admin) -> None:
    begun = asyncio.Event()
    async with reading(admin, begun) as feed:
        await eventually(lambda: feed.seen.described_at_ms is not None)
        assert feed.seen.read_at_ms is None
        begun.set()
        await eventually(lambda: sizes(feed) == {"bills": 1, "orders": 1})
