"""While no broker answers, pages say that what they show is old, or at once that they cannot be shown."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from strandline.console.core.timeline.gaps import SILENT
from strandline.console.core.timeline.places import Source, event_id, pack
from strandline.console.feeds.event_topic import FOLLOWING
from strandline.console.web.app import application
from strandline.console.web.context import Console
from strandline.testing import MemoryCluster
from tests.console.web.browser import Browser
from tests.console.web.consoles import console_of
from tests.waiting import eventually

BROKERS = (1, 2, 3)
OLD = r"No broker has answered since \S+Z : what is below is as it was then \(.+\)\."


@pytest.fixture
async def harmed() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=len(BROKERS)) as cluster:
        await cluster.create_topic("orders", partitions=3, replication_factor=3)
        yield cluster


async def _follows(console: Console) -> None:
    async def following() -> bool:
        states = [console.timeline.state_of(source) for source in console.timeline.topics]
        seen = console.cluster.seen
        return None not in (seen.read_at_ms, seen.described_at_ms) and FOLLOWING in states

    await eventually(following, what="the console follows the cluster")


async def _is_old(console: Console, old: bool) -> None:
    async def known() -> bool:
        return console.cluster.seen.unanswered == old

    await eventually(known, what=f"the console knows whether a broker answers: {not old}")


async def test_what_is_old_is_called_old_and_what_needs_an_answer_is_refused(harmed: MemoryCluster) -> None:
    async with console_of(harmed) as console:
        browser = Browser(application(console))
        await _follows(console)
        assert not re.search(OLD, (await browser.get("/topics")).words)
        for broker in BROKERS:
            harmed.kill(broker)
        await _is_old(console, True)
        for path in ("/", "/topics", "/timeline", "/old"):
            page = await browser.get(path)
            assert page.status == 200 and re.search(OLD, page.words), path
        overview = (await browser.get("/?part=cluster")).words
        assert overview.count("was alive") == len(BROKERS)
        assert overview.count("The cluster cannot be read") == 1
        assert await _reasons(browser) == {SILENT}
        feeds: list[dict[str, Any]] = (await browser.get("/api/timeline")).json["feeds"]
        assert FOLLOWING not in [each["state"] for each in feeds]
        assert any(each["state"].startswith("cannot be read now: no broker answered") for each in feeds)
        for path in (
            "/moves", "/groups", "/groups/readers", "/streams", "/topics/orders", "/topics/orders/0/records",
        ):  # fmt: skip
            page = await browser.get(path)
            assert page.status == 503 and "no broker answered" in page.words, path
            assert "within page_ms_max" not in page.words, "it says so at once"
            assert not re.search(OLD, page.words)
        for broker in BROKERS:
            harmed.start(broker)
        await _is_old(console, False)
        assert not re.search(OLD, (await browser.get("/topics")).words)

        async def known() -> bool:
            return await _reasons(browser) == {""}

        await eventually(known, what="who leads is known again")


async def _reasons(browser: Browser) -> set[str]:
    """Why it is not known who leads the partitions of orders now; empty for those of which it is known."""
    now_ms = (await browser.get("/api/timeline")).json["now"]
    path = f"/api/timeline?topic=orders&kind=leader&from={now_ms - 600_000}&until={now_ms + 600_000}"
    rows = (await browser.get(path)).json["rows"]
    return {lane["items"][-1].get("unknown", "") for row in rows for lane in row["lanes"]}


async def test_brokers_that_hang_keep_no_page_waiting(harmed: MemoryCluster) -> None:
    async with console_of(harmed, page_ms_max=500) as console:
        browser = Browser(application(console))
        await _follows(console)
        for broker in BROKERS:
            harmed.pause(broker)
        page = await browser.get("/topics/orders")
        assert page.status == 503 and "did not answer within page_ms_max = 500 ms" in page.words
        await _is_old(console, True)
        page = await browser.get("/topics")
        assert page.status == 200 and re.search(OLD, page.words)
        for broker in BROKERS:
            harmed.resume(broker)
        await _is_old(console, False)


def _see_a_change(console: Console) -> str | None:
    """Puts a new active controller into what this console saw. Returns the id of the event."""
    window, now_ms = console.timeline.window, console.clock.wall_ms()
    for controller in (901, 902):
        window.seen_brokers([], controller, now_ms)
    return event_id(pack(Source.SEEN, 0, window.first_seen))


async def test_what_an_earlier_start_saw_is_no_longer_known(harmed: MemoryCluster) -> None:
    async with console_of(harmed) as console:
        before = _see_a_change(console)
        answer = await Browser(application(console)).get(f"/api/timeline/event/{before}")
        assert answer.status == 200 and "Controller" in answer.json["sentence"]
    async with console_of(harmed) as console:
        assert _see_a_change(console) != before
        answer = await Browser(application(console)).get(f"/api/timeline/event/{before}")
        assert answer.status == 404 and "before it was started again" in answer.json["error"]
