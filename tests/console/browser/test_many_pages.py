"""Many pages of one browser follow the cluster together, though it opens six connections to a host."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

import pytest
from playwright.async_api import BrowserContext, Locator, Page

from strandline.testing import MemoryCluster
from tests.console.browser.conftest import OpenPage, Watch
from tests.console.web.consoles import served

PATHS: Final = (
    "/timeline",
    "/topics",
    "/",
    "/timeline?rows=broker",
    "/groups",
    "/streams",
    "/moves",
    "/topics",
)
WITHOUT_LOCKS: Final = "delete Navigator.prototype.locks"
SIGHT: Final = """hidden => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""
"""Takes a page out of sight, or back: a page that Playwright drives is always in sight."""


@pytest.fixture(scope="module")
async def memory() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
async def address(memory: MemoryCluster) -> AsyncIterator[str]:
    async with served(memory) as address:
        yield address


async def further(first: Page, watch: Watch, url: str) -> Page:
    """Another page of the same browser."""
    page = await first.context.new_page()
    watch.follow(page)
    await page.goto(url)
    return page


def topic(page: Page, name: str) -> Locator:
    """Where the list of topics has one."""
    return page.get_by_role("link", name=name, exact=True)


async def live(page: Page) -> None:
    """Returns once the page says that it is."""
    await page.locator("#connection").get_by_text("live", exact=True).wait_for()


def streams_of(context: BrowserContext) -> Counter[str]:
    """Counts the streams that its pages ask for from now on, by their paths."""
    asked: Counter[str] = Counter()
    context.on("request", lambda request: asked.update([urlsplit(request.url).path]))
    return asked


async def test_many_pages_are_live_with_one_stream(
    memory: MemoryCluster, address: str, open_page: OpenPage, watch: Watch
) -> None:
    first = await open_page("about:blank")
    asked = streams_of(first.context)
    await first.goto(f"{address}/topics")
    pages = [first, *[await further(first, watch, address + path) for path in PATHS]]
    for page in pages:
        await live(page)
    assert (asked["/live"], asked["/api/timeline/live"]) == (1, 1)
    await memory.create_topic("early")
    for page in (first, pages[-1]):
        await topic(page, "early").wait_for()
    await first.close()
    await memory.create_topic("late")
    await topic(pages[-1], "late").wait_for()
    assert asked["/live"] == 2, "another page has the stream now"


async def test_a_page_out_of_sight_has_no_stream_and_catches_up(
    memory: MemoryCluster, address: str, open_page: OpenPage, watch: Watch
) -> None:
    first = await open_page(f"{address}/topics")
    await live(first)
    asked = streams_of(first.context)
    second = await further(first, watch, f"{address}/topics")
    await first.evaluate(SIGHT, True)
    await memory.create_topic("unseen")
    await topic(second, "unseen").wait_for()
    assert asked["/live"] == 1, "the second page has the stream now"
    assert await topic(first, "unseen").count() == 0
    await first.evaluate(SIGHT, False)
    await topic(first, "unseen").wait_for()
    assert asked["/live"] == 1, "the second page tells the first"


async def test_a_browser_without_locks_has_a_stream_for_each_page_in_sight(
    memory: MemoryCluster, address: str, open_page: OpenPage, watch: Watch
) -> None:
    """Such as one that reaches the console over a network in plaintext."""
    first = await open_page("about:blank")
    await first.context.add_init_script(WITHOUT_LOCKS)
    await first.goto(f"{address}/topics")
    second = await further(first, watch, f"{address}/topics")
    await memory.create_topic("open")
    for page in (first, second):
        await topic(page, "open").wait_for()
    await first.evaluate(SIGHT, True)
    await memory.create_topic("more")
    await topic(second, "more").wait_for()
    assert await topic(first, "more").count() == 0
    await first.evaluate(SIGHT, False)
    await topic(first, "more").wait_for()


async def test_an_open_page_is_not_called_live_while_no_broker_answers(
    memory: MemoryCluster, address: str, open_page: OpenPage
) -> None:
    page = await open_page(f"{address}/topics")
    await live(page)
    (broker,) = memory.broker_ids
    memory.kill(broker)
    await page.locator("#connection").get_by_text("not up to date").wait_for()
    await page.get_by_text("No broker has answered since").wait_for()
    memory.start(broker)
    await live(page)
