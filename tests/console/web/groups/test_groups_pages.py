"""The pages of groups, with real members."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from strandline import Consumer, RebalanceListener
from strandline.console.core.permalink import group_link
from strandline.console.web.pages.groups import IN_LIST_MAX
from strandline.ids import TopicPartition
from strandline.report.text.partition_names import compact
from strandline.testing import MemoryCluster
from tests.console.web.browser import Browser
from tests.console.web.consoles import browser_of
from tests.waiting import eventually

HOSTILE = '<img src=x onerror=alert(1)>/"\u202e..'


class Slow(RebalanceListener):
    """Gives nothing up before it may."""

    def __init__(self) -> None:
        self.may = asyncio.Event()

    async def on_revoked(self, removed: set[TopicPartition]) -> None:
        await self.may.wait()


class Site:
    """A console beside a cluster with a topic, and consumers of it."""

    def __init__(self, cluster: MemoryCluster, browser: Browser) -> None:
        self.cluster = cluster
        self.browser = browser
        self._opened = AsyncExitStack()

    async def join(self, group: str, listener: RebalanceListener | None = None, **settings: Any) -> Consumer:
        """A new member; `poll` lets it and others go on."""
        given = {"group_id": group, "offset_reset": "earliest", **settings}
        consumer = await self._opened.enter_async_context(self.cluster.consumer(**given))
        consumer.subscribe(["orders"], listener=listener)
        return consumer

    async def shares(self, *members: Consumer, partitions: int = 4) -> None:
        """Returns once these members have all partitions, in even shares."""

        async def settled() -> bool:
            for member in members:
                await member.getmany(timeout_ms=5)
            return all(len(member.assignment()) == partitions // len(members) for member in members)

        await eventually(settled, deadline_s=30)

    async def close(self) -> None:
        await self._opened.aclose()


@pytest.fixture(scope="module")
async def site_of_all() -> AsyncIterator[Site]:
    async with MemoryCluster(brokers=1) as cluster:
        await cluster.create_topic("orders", partitions=4)
        async with cluster.producer() as producer:
            for partition in range(4):
                await producer.send_and_wait("orders", b"x", partition=partition)
        async with browser_of(cluster) as browser:
            yield Site(cluster, browser)


@pytest.fixture
async def site(site_of_all: Site) -> AsyncIterator[Site]:
    yield site_of_all
    await site_of_all.close()


async def commit(site: Site, *groups: str, partition: int = 0, offset: int = 0) -> None:
    async with site.cluster.admin() as admin:
        for group in groups:
            await admin.alter_group_offsets(group, {TopicPartition("orders", partition): offset})


async def test_the_list_has_each_group_with_its_state_members_and_lag(site: Site) -> None:
    await commit(site, "idle", offset=1)
    member = await site.join("reading", rebalance_protocol="cooperative")
    await site.shares(member)
    await member.commit(dict.fromkeys(member.assignment(), 1))

    async def there() -> str:
        words = (await site.browser.get("/groups?search=reading")).words
        return words if "reading stable sticky 1 4 0" in words else ""

    await eventually(there, deadline_s=30)
    assert "idle empty – 0 1 0" in (await site.browser.get("/groups?search=IDLE")).words


async def test_a_long_list_is_searched_and_paged(site: Site) -> None:
    await commit(site, *(f"many-{number:03}" for number in range(IN_LIST_MAX + 1)))

    async def listed() -> str:
        words = (await site.browser.get("/groups?search=many")).words
        return words if f"{IN_LIST_MAX + 1} of them match" in words else ""

    words = await eventually(listed)
    assert "many-000" in words
    assert f"many-{IN_LIST_MAX:03}" not in words
    assert f"1–{IN_LIST_MAX} of {IN_LIST_MAX + 1} groups Next" in words
    last = await site.browser.get("/groups?search=many&page=2")
    assert f"many-{IN_LIST_MAX:03}" in last.words
    assert 'href="?search=many&amp;page=1"' in last.text
    assert "No group matches" in (await site.browser.get("/groups?search=many&state=Dead")).words
    assert (await site.browser.get("/groups?page=x")).status == 400
    assert (await site.browser.get("/groups?state=zzz")).status == 400
    assert (await site.browser.get(f"/groups?search={'x' * 250}")).status == 400


async def test_a_group_shows_its_members_and_who_owns_what(site: Site) -> None:
    one = await site.join("shared", client_id="web-1", rebalance_protocol="cooperative")
    other = await site.join("shared", client_id="web-2", rebalance_protocol="cooperative")
    await site.shares(one, other)
    page = await site.browser.get("/groups/shared")
    assert page.status == 200
    assert "sticky, 2 cooperative" in page.words.replace(" ,", ",")
    for client, consumer in (("web-1", one), ("web-2", other)):
        owned = ",".join(str(name.partition) for name in sorted(consumer.assignment()))
        assert f"{client} – cooperative orders:" in page.words
        for partition in owned.split(","):
            cells = page.text.split(f"<bdi>orders-{partition}</bdi>")[1].partition("</tr>")[0]
            assert cells.count("owns") == 2, "the class and the word of one cell"
    assert 'scope="col" title="web-1-' in page.text
    part = await site.browser.get("/groups/shared?part=now")
    assert "<html" not in part.text
    assert "Who owns what" in part.text


async def test_a_group_whose_coordinator_assigns_names_who_others_wait_for(site: Site) -> None:
    """KIP-848: the group's epoch, its target's, each member's, and what one has yet to give up."""
    slow = Slow()
    one = await site.join("assigned", slow, client_id="holds", group_protocol="consumer")
    await site.shares(one)
    other = await site.join("assigned", client_id="waits", group_protocol="consumer")

    async def waits() -> bool:
        await other.getmany(timeout_ms=5)
        words = (await site.browser.get("/groups/assigned?part=now")).words
        said = (
            "reconciling: members go to their targets",
            "others wait holds has yet to give up orders:",
            "behind orders:0-3",
        )
        return all(each in words for each in said) and bool(
            re.search(r"epoch (\d+), with the target of \1", words)
        )

    await eventually(waits, deadline_s=30)
    slow.may.set()
    await site.shares(one, other)

    async def told() -> bool:
        words = (await site.browser.get("/groups/assigned?part=now")).words
        return "Others waited longest for holds to give partitions up." in words and "stable , epoch" in words

    await eventually(told, deadline_s=30)


async def test_a_member_that_leaves_is_gone_from_the_page(site: Site) -> None:
    one = await site.join("leaving", client_id="stays")
    other = await site.join("leaving", client_id="goes")
    await site.shares(one, other)
    assert "2 eager" in (await site.browser.get("/groups/leaving")).words
    await other.stop()
    await site.shares(one)

    async def alone() -> bool:
        words = (await site.browser.get("/groups/leaving?part=now")).words
        return "1 eager" in words and "left: the consumer was closed" in words

    await eventually(alone)


async def test_a_group_shows_why_it_rebalanced_and_links_to_the_moment(site: Site) -> None:
    """The design's question: who joined, who left, what was given and taken."""
    one = await site.join("moving", client_id="stays", rebalance_protocol="cooperative")
    await site.shares(one)
    other = await site.join("moving", client_id="<i>goes</i>", rebalance_protocol="cooperative")
    await site.shares(one, other)
    moved = compact(other.assignment())
    await other.stop()
    await site.shares(one)

    async def told() -> str:
        text = (await site.browser.get("/groups/moving?part=now")).text
        rebalances = text[text.index("<h2>Last rebalances") : text.index("<h2>Members")]
        return rebalances if rebalances.count("got") == 3 else ""

    text = await eventually(told, deadline_s=30)
    words = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    assert "left: the consumer was closed" in words
    assert re.search(rf"&lt;i&gt;goes&lt;/i&gt; [0-9a-f]{{8}} gave up {re.escape(moved)}", words)
    assert re.search(r"stays gave up orders:\S+ ", words)
    assert "partitions move between members" in words
    assert "<i>" not in text
    assert re.search(r'href="/timeline\?rows=group[^"]*group=moving[^"]*event=group%2F0%2F\d+"', text)


async def test_a_group_on_both_rebalance_protocols_says_how_to_finish_the_upgrade(site: Site) -> None:
    """KIP-429: no partition moves away from a cooperative member until then."""
    eager = await site.join("mixed", client_id="old")
    cooperative = await site.join("mixed", client_id="new", rebalance_protocol="cooperative")

    async def shown() -> bool:
        for member in (eager, cooperative):
            await member.getmany(timeout_ms=5)
        words = (await site.browser.get("/groups/mixed?part=now")).words
        return "The members of group mixed follow both rebalance protocols. Eager: old-" in words

    await eventually(shown, deadline_s=30)

    async def listed() -> bool:
        return "both rebalance protocols" in (await site.browser.get("/groups?search=mixed")).words

    await eventually(listed, deadline_s=30)


async def test_a_lag_is_a_chart_and_figures_once_it_was_sampled_twice(site: Site) -> None:
    await commit(site, "lagging")
    assert "sampled the lag of this group once" in (await site.browser.get("/groups/lagging")).words

    async def drawn() -> str:
        text = (await site.browser.get("/groups/lagging?part=now")).text
        return text if "<polyline" in text else ""

    text = await eventually(drawn)
    assert 'at most 1 record"' in text
    assert "style=" not in text


async def test_partitions_are_paged_and_filtered_by_topic(site: Site) -> None:
    for partition in range(4):
        await commit(site, "wide", partition=partition)
    assert "orders-3" in (await site.browser.get("/groups/wide?topic=order")).words
    assert (
        "No topic of this group contains “other”"
        in (await site.browser.get("/groups/wide?topic=other")).words
    )
    assert (await site.browser.get("/groups/wide?members=0")).status == 400


@pytest.mark.parametrize("name", [HOSTILE, "..", ".", "a/b", "/", "a b?c#d%2F", "ünï"])
async def test_a_group_of_any_name_has_a_page_and_no_name_is_markup(site: Site, name: str) -> None:
    """Any client may choose the name of a group."""
    await commit(site, name)
    page = await site.browser.get(group_link(name))
    assert page.status == 200
    assert "orders-0" in page.words
    assert "<img" not in page.text
    assert "\u202e" not in page.text


async def test_a_hostile_client_id_is_no_markup(site: Site) -> None:
    member = await site.join("hostile-member", client_id="<script>alert(1)</script>")
    await site.shares(member)
    page = await site.browser.get("/groups/hostile-member")
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text


async def test_an_unknown_group_is_not_found(site: Site) -> None:
    page = await site.browser.get("/groups/nobody")
    assert page.status == 404
    assert "group nobody is not known" in page.words
