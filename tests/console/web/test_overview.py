"""The overview says what is wrong, since when, and where to look."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import pytest

from strandline.console.web.app import application
from strandline.testing import MemoryCluster
from tests.console.web.browser import Browser
from tests.console.web.consoles import browser_of, console_of
from tests.waiting import eventually


@pytest.fixture
async def harmed() -> AsyncIterator[MemoryCluster]:
    """A cluster that a test may harm."""
    async with MemoryCluster(brokers=3) as cluster:
        await cluster.create_topic("orders", partitions=3, replication_factor=3)
        yield cluster


async def test_a_killed_broker_is_told_and_the_link_leads_to_the_moment(harmed: MemoryCluster) -> None:
    async with console_of(harmed) as console:
        browser = Browser(application(console))

        async def says(words: str) -> bool:
            return words in (await browser.get("/?part=cluster")).words

        await eventually(lambda: says("well Every partition has a leader"), what="all is well")
        (address,) = (each.address for each in console.cluster.seen.brokers if each.id == 2)
        before_ms = console.clock.wall_ms()
        harmed.kill(2)
        await eventually(lambda: says("Broker 2 is away."), what="the broker is missed")
        await eventually(
            lambda: says("replicas in sync than assigned; broker 2 is away"), what="its replicas are"
        )
        await eventually(lambda: says(f"2 away {address} (last known)"), what="its address is still shown")
        page = (await browser.get("/?part=cluster")).text
        links = [
            urlsplit(each.replace("&amp;", "&"))
            for each in re.findall(r'href="(/timeline[^"]*from=[^"]*)"', page)
        ]
        assert links
        assert any("event=" in link.query for link in links)
        for link in links:
            asked = parse_qs(link.query)
            assert int(asked["until"][0]) > before_ms
            answer = await browser.get(f"/api/timeline?{link.query}")
            assert answer.status == 200 and answer.json["rows_total"] >= 1
            for event in asked.get("event", []):
                assert (await browser.get(f"/api/timeline/event/{event}")).json["sentence"]
        harmed.start(2)
        await eventually(lambda: says("well Every partition has a leader"), what="all is well again")


async def test_the_overview_shows_what_brokers_keep(harmed: MemoryCluster) -> None:
    async with harmed.producer() as producer:
        await producer.send_and_wait("orders", b"x" * 50_000)
    async with browser_of(harmed) as browser:

        async def words() -> str:
            return (await browser.get("/?part=cluster")).words

        async def is_measuring() -> bool:
            return "not measured yet" in await words()

        async def shows_sizes() -> bool:
            return (await words()).count(" kB ") >= 3

        await eventually(is_measuring, what="the first look says that nothing was measured yet")
        assert "unknown" not in await words()
        await eventually(shows_sizes, what="the logs of three brokers have sizes")
