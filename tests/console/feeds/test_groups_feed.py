"""What reading groups costs, and what is kept of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from strandline import Admin
from strandline.console.feeds.groups import (
    AGE_S,
    ASK_S,
    IN_LIST_AGE_S,
    LOOKING_S,
    SAMPLED_AFTER_LOOK_S,
    SAMPLED_MAX,
    GroupsFeed,
)
from strandline.errors import GroupIdNotFound
from strandline.ids import TopicPartition
from strandline.testing import MemoryCluster
from tests.hand_clock import HandClock

PLACE = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=1) as cluster:
        await cluster.create_topic("orders")
        yield cluster


@pytest.fixture
async def admin(cluster: MemoryCluster) -> AsyncIterator[Admin]:
    async with cluster.admin() as admin:
        for group in await admin.list_groups():
            await admin.delete_group(group.group)
        yield admin


class Feed:
    """A feed with a clock that the test moves."""

    def __init__(self, admin: Admin) -> None:
        self.clock = HandClock()
        self.changes = 0
        self.of = GroupsFeed(admin, self.clock, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def times(self, group: str) -> int:
        """How often the group was read."""
        return len(self.of.samples(group))


async def commit(admin: Admin, *groups: str, offset: int = 0) -> None:
    for group in groups:
        await admin.alter_group_offsets(group, {PLACE: offset})


async def test_only_the_groups_that_are_asked_for_are_described(admin: Admin) -> None:
    names = [f"g-{number:03}" for number in range(SAMPLED_MAX + 10)]
    await commit(admin, *names)
    feed = Feed(admin)
    assert [each.group for each in await feed.of.listed(admin)] == names
    found = await feed.of.groups(admin, names[:3])
    await feed.of.sample()
    assert list(found) == names[:3]
    assert [name for name in names if feed.times(name)] == names[:3]


async def test_several_who_look_at_once_cost_one_reading_until_it_is_too_old(admin: Admin) -> None:
    await commit(admin, "g")
    feed = Feed(admin)
    first = await feed.of.group(admin, "g")
    await commit(admin, "g", offset=0)
    feed.clock.now_s += AGE_S / 2
    assert await feed.of.group(admin, "g") is first
    await feed.of.groups(admin, ["g", "g"])
    assert feed.times("g") == 1
    feed.clock.now_s += AGE_S
    assert await feed.of.group(admin, "g") is not first
    assert feed.times("g") == 2


async def test_what_a_browser_looks_at_is_read_again_and_others_hear_of_a_change(admin: Admin) -> None:
    await commit(admin, "g")
    feed = Feed(admin)
    await feed.of.group(admin, "g")
    feed.clock.now_s += AGE_S
    await feed.of.read_again()
    assert (feed.times("g"), feed.changes) == (2, 0)
    await admin.delete_group("g")
    feed.clock.now_s += AGE_S
    await feed.of.read_again()
    assert feed.changes == 1
    with pytest.raises(GroupIdNotFound):
        await feed.of.group(admin, "g")
    assert feed.times("g") == 0, "nothing is kept of a group that is gone"


async def test_those_who_look_are_asked_now_and_then_and_nothing_is_read_once_they_are_gone(
    admin: Admin,
) -> None:
    """A page loads itself again only when it hears of a change: without one it would count as gone."""
    await commit(admin, "g")
    feed = Feed(admin)
    await feed.of.group(admin, "g")
    feed.clock.now_s += ASK_S
    await feed.of.read_again()
    assert feed.changes == 1
    await feed.of.read_again()
    assert feed.changes == 1
    feed.clock.now_s += LOOKING_S + 1
    await feed.of.read_again()
    assert (feed.changes, feed.times("g")) == (1, 2)


async def test_a_group_in_a_list_is_read_less_often_than_one_on_its_page(admin: Admin) -> None:
    await commit(admin, "g")
    feed = Feed(admin)
    await feed.of.groups(admin, ["g"])
    feed.clock.now_s += AGE_S
    await feed.of.read_again()
    assert feed.times("g") == 1
    feed.clock.now_s += IN_LIST_AGE_S - AGE_S
    await feed.of.read_again()
    assert feed.times("g") == 2


async def test_lag_is_sampled_while_no_browser_looks_for_few_groups_and_those_of_the_last_hour(
    admin: Admin,
) -> None:
    await commit(admin, "a", "b")
    few = Feed(admin)
    await few.of.sample()
    assert (few.times("a"), few.times("b")) == (1, 1)
    await commit(admin, *(f"g-{number:03}" for number in range(SAMPLED_MAX)))
    many = Feed(admin)
    await many.of.group(admin, "b")
    many.clock.now_s += LOOKING_S + 1
    await many.of.read_again()
    await many.of.sample()
    assert (many.times("a"), many.times("b")) == (0, 2)
    many.clock.now_s += SAMPLED_AFTER_LOOK_S
    await many.of.sample()
    assert many.times("b") == 2
