"""Topics and records in a real browser: a topic is created and deleted, records are followed and searched."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Route

from strandline import Admin, Producer
from strandline.local.cluster import LocalCluster
from tests.console.browser.accessibility import check_usable, serious_findings
from tests.console.browser.conftest import PHONE, WIDE, OpenPage, Scheme, Watch
from tests.console.serving import serving

SILENT = re.compile(r"The console does not answer since \d\d:\d\d:\d\d\.\d{3}\. What is shown is from then\.")
BEFORE = "each => getComputedStyle(each, '::before').content"
HOSTILE = b"<img src=x onerror=alert(1)><script>alert(1)</script>"


@pytest.fixture(scope="module")
async def console(cluster: LocalCluster) -> AsyncIterator[str]:
    async with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        await admin.create_topic("shown", 2, 3)
        for number in range(5):
            await producer.send_and_wait("shown", HOSTILE, f"k{number}".encode(), partition=0)
    async with serving("--allow-changes", bootstrap=cluster.bootstrap) as address:
        yield address


@pytest.mark.parametrize(
    "path",
    ["/topics", "/topics/shown", "/moves", "/topics/shown/0/records", "/topics/shown/0/records/3",
     "/topics/shown/0/search?text=img"],
)  # fmt: skip
@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")])
async def test_a_page_can_be_used_by_everybody(
    console: str, open_page: OpenPage, path: str, size: tuple[int, int], scheme: Scheme
) -> None:
    await check_usable(await open_page(console + path, size=size, scheme=scheme))


NARROW: Final = (390, 844)
EDGE_PX: Final = 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_table_that_is_wider_than_a_phone_shows_at_its_edges_that_there_is_more(
    console: str, open_page: OpenPage, scheme: Scheme
) -> None:
    page = await open_page(f"{console}/topics", size=NARROW, scheme=scheme)

    async def table(words: str) -> Any:
        """What these words of JavaScript say of the table that the live page has now."""
        find = "document.querySelector('[role=region][aria-label=Topics]')"
        return await page.evaluate(f"() => {{ const each = {find}; return {words}; }}")

    async def edge(x: float) -> bytes:
        """Some pixels of the head, below its words."""
        y = await table("each.querySelector('thead').getBoundingClientRect().bottom")
        return await page.screenshot(clip={"x": x, "y": y - 4, "width": EDGE_PX, "height": 2})

    assert await table("each.scrollWidth - each.clientWidth") > 50
    box = await table("each.getBoundingClientRect().toJSON()")
    left, right = box["x"] + 1, box["x"] + box["width"] - 1 - EDGE_PX
    plain, more = await edge(left), await edge(right)
    assert plain != more, "there is more on the right"
    await table("each.scrollLeft = each.scrollWidth")
    assert await edge(right) == plain, "that is the end"
    assert await edge(left) != plain, "there is more on the left"
    assert await serious_findings(page) == []


async def test_a_topic_is_created_and_deleted_by_its_pages(console: str, open_page: OpenPage) -> None:
    page = await open_page(f"{console}/topics")
    await page.get_by_label("Name", exact=True).fill("by-hand")
    await page.get_by_label("Partitions", exact=True).fill("2")
    await page.get_by_role("button", name="Show what this would do").click()
    await page.get_by_text("Nothing is done yet").wait_for()
    await page.get_by_role("button", name="Create topic by-hand").click()
    await page.get_by_text("Topic by-hand is created").wait_for()
    assert await serious_findings(page) == []
    await page.get_by_role("link", name="See it on the timeline").wait_for()
    await page.get_by_role("link", name="Back").click()
    await page.get_by_role("heading", name="Topic by-hand").wait_for()
    await page.get_by_role("button", name="Show what deleting it would do").click()
    await page.get_by_label("Type by-hand to confirm").fill("by-hand")
    assert await serious_findings(page) == []
    await page.get_by_role("button", name="Delete topic by-hand").click()
    await page.get_by_text("Topic by-hand is deleted").wait_for()


async def test_new_records_come_while_a_page_follows(
    cluster: LocalCluster, console: str, open_page: OpenPage
) -> None:
    page = await open_page(f"{console}/topics/shown/1/records")
    await page.get_by_role("button", name="Follow live").click()
    await page.get_by_text("Waiting for records").wait_for()
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("shown", HOSTILE, b"live", partition=1)
    await page.get_by_text("1 new record.").wait_for()
    await page.locator("#records").get_by_text("<script>alert(1)</script>").wait_for()
    await page.get_by_role("button", name="Stop").click()
    await page.get_by_text("Stopped.").wait_for()


async def test_a_page_that_follows_shows_each_record_once_though_the_console_is_restarted(
    cluster: LocalCluster, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("ERR_", "503")  # the browser notes that the console ends, and does not answer
    async with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        await admin.create_topic("again", 1, 3)
        async with serving(bootstrap=cluster.bootstrap) as address:
            page = await open_page(f"{address}/topics/again/0/records")
            await page.get_by_role("button", name="Follow live").click()
            await page.get_by_text("Waiting for records").wait_for()
            await producer.send_and_wait("again", b"first")
            await page.get_by_text("1 new record.").wait_for()
            overview = await open_page(address)
            await overview.get_by_text("alive", exact=True).first.wait_for()
            banner = overview.get_by_text(SILENT)
            assert await banner.count() == 0
        await banner.wait_for()
        await overview.locator("#connection").get_by_text("not connected").wait_for()
        shown = await overview.get_by_text("alive", exact=True).first.evaluate(BEFORE)
        assert shown == '"was "', "what is old is not called good"
        async with serving("--listen", urlsplit(address).netloc, bootstrap=cluster.bootstrap):
            await producer.send_and_wait("again", b"second")
            await page.locator("#records").get_by_text("second").wait_for()
            await page.get_by_text("2 new records.").wait_for()
            await banner.wait_for(state="hidden")
            await overview.locator("#connection").get_by_text("live", exact=True).wait_for()
            assert await page.locator("#records tbody tr").count() == 2


async def test_an_open_page_of_a_deleted_topic_says_that_it_is_gone(
    cluster: LocalCluster, console: str, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("404",)
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("pair", 1, 3)
        page = await open_page(f"{console}/topics/pair")
        follower = await open_page(f"{console}/topics/pair/0/records")
        await follower.get_by_role("button", name="Follow live").click()
        await follower.get_by_text("Waiting for records").wait_for()
        await page.locator("#connection").get_by_text("live", exact=True).wait_for()
        await page.get_by_text("all in sync").first.wait_for()
        await admin.delete_topics(["pair"])
        for each in (page, follower):
            await each.get_by_text("topic 'pair' does not exist").wait_for()
            await each.get_by_text("It has been gone since").wait_for()
            await each.get_by_role("link", name="All topics").wait_for()
            await each.locator("#connection").get_by_text("gone", exact=True).wait_for()
            assert await serious_findings(each) == []
        assert await page.get_by_text("all in sync").count() == 0
        assert not await page.get_by_role("heading", name="Config").first.is_visible()
        await admin.create_topic("pair", 1, 3)
        await page.get_by_text("all in sync").first.wait_for()
        assert await page.get_by_role("heading", name="Config").first.is_visible()


async def test_an_answer_that_comes_late_does_not_replace_a_later_one(
    cluster: LocalCluster, console: str, open_page: OpenPage, watch: Watch
) -> None:
    """The page asks for a section on time and after each change, so two answers may be under way."""
    watch.expected = ("404",)
    part = "**/topics/late?part=partitions"
    held, release = asyncio.Event(), asyncio.Event()

    async def hold_the_first(route: Route) -> None:
        answer = await route.fetch()
        if not held.is_set():
            held.set()
            await release.wait()
        await route.fulfill(response=answer)

    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("late", 1, 3)
        page = await open_page(f"{console}/topics/late")
        await page.route(part, hold_the_first)
        await held.wait()
        await admin.delete_topics(["late"])
    await page.get_by_text("topic 'late' does not exist").wait_for()
    async with page.expect_response(lambda response: "late?part" in response.url and response.ok):
        release.set()
    async with page.expect_request(part):
        pass  # it was not loaded again: a page that says 404 from the start asks for nothing
    await page.locator("#connection").get_by_text("gone", exact=True).wait_for()
    await page.unroute_all(behavior="ignoreErrors")  # an answer may be under way as the page closes


async def test_a_search_goes_on_by_itself(cluster: LocalCluster, console: str, open_page: OpenPage) -> None:
    """One request searches at most 32 MiB; the page asks for the next part until all is searched."""
    async with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        await admin.create_topic("large", 1, 1)
        for number in range(90):
            await producer.send_and_wait("large", b"v" * 400_000, f"k{number}".encode())
    page = await open_page(f"{console}/topics/large/0/search?text=k8")
    await page.get_by_text("Searched offsets 0 to 90, back to 0: 11 found").wait_for()
    found = await page.locator("#found tbody th").all_inner_texts()
    assert found == [*map(str, range(89, 79, -1)), "8"], "the newest first"
    assert await page.locator("#search-on").count() == 0
