"""The timeline in a browser: what it draws, what it explains, and what its address keeps.

Three brokers of a cluster in memory lead partitions; one of them is killed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from strandline.config.console import ConsoleSettings
from strandline.config.load import load
from strandline.console.runs_process import serve_runs
from strandline.testing import MemoryCluster
from tests.console.browser.accessibility import check_usable, serious_findings
from tests.console.browser.conftest import PHONE, OpenPage
from tests.console.runs.folders import write_round
from tests.console.web.consoles import served
from tests.waiting import eventually

DRAWN = "[data-drawn]:not([data-drawn=''])"
LINES = "[data-table] tbody tr"
PANEL = "[data-panel]"
DAYS_15_MS = 15 * 86_400_000
SHOWN = """document.querySelector("[data-time]").title.split(" to ").map(Date.parse)"""
ADDRESS_SAYS_THE_TIME = """() => {
    const shown = document.querySelector("[data-time]").title.split(" to ").map(Date.parse);
    const said = new URLSearchParams(location.search);
    return ["from", "until"].every((name, place) => Math.abs(said.get(name) - shown[place]) <= 1);
}"""


@dataclass(frozen=True, slots=True)
class Site:
    """A console, and what happened in its cluster."""

    address: str
    cluster: MemoryCluster
    killed: int
    """The broker that led orders-0 and died."""


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[Site]:
    async with MemoryCluster(brokers=3) as cluster:
        await cluster.create_topic("orders", partitions=12)
        async with served(cluster) as address, cluster.admin() as admin:
            leader = (await admin.describe_topics(["orders"]))[0].partitions[0].leader
            cluster.kill(leader)

            async def led_by_another() -> bool:
                led = (await admin.describe_topics(["orders"]))[0].partitions[0].leader
                return led not in (leader, -1)

            await eventually(led_by_another)
            yield Site(address, cluster, leader)


async def opened(open_page: OpenPage, site: Site, query: str = "", **given: object) -> Page:
    """The timeline once it is drawn."""
    page = await open_page(f"{site.address}/timeline?{query}", **given)
    await page.wait_for_selector(DRAWN)
    return page


async def line(page: Page, where: str, what: str) -> None:
    """Opens the explanation of a line of the table."""
    row = page.locator(LINES).filter(has_text=where).filter(has_text=re.compile(what))
    await row.first.get_by_role("button").click()


async def test_who_led_before_and_after_and_why(open_page: OpenPage, site: Site) -> None:
    page = await opened(open_page, site, "topic=orders&partition=0&kind=leader")
    await line(page, "orders-0", rf"broker (?!{site.killed} )\d+ leads at epoch")
    panel = page.locator(PANEL)
    await expect(panel.get_by_role("heading", level=2)).to_contain_text("leads orders-0 at epoch")
    await expect(panel).to_contain_text(re.compile(f"broker {site.killed} (is gone|does not answer)"))
    before = panel.get_by_role("row", name=re.compile("^leader"))
    await expect(before.get_by_role("cell").first).to_have_text(str(site.killed))
    record = panel.get_by_role("link", name=re.compile(r"__state_changes-\d+@\d+"))
    await record.click()
    title = page.get_by_role("heading", level=1)
    await expect(title).to_contain_text(re.compile(r"Record \d+ of __state_changes"))
    await expect(page.get_by_role("main")).to_contain_text("elect-leader")


async def test_the_address_opens_the_same_view_with_the_same_event(open_page: OpenPage, site: Site) -> None:
    page = await opened(open_page, site, "topic=orders&partition=0&kind=leader")
    await line(page, "orders-0", rf"broker (?!{site.killed} )\d+ leads at epoch")
    said = page.locator(PANEL).get_by_role("heading", level=2)
    await expect(said).to_contain_text("leads orders-0")
    await page.get_by_role("button", name="Zoom in").click()
    await page.get_by_role("button", name="Earlier").click()
    await expect(page).to_have_url(re.compile("event=state%2F"))
    await page.wait_for_function(ADDRESS_SAYS_THE_TIME)
    time = await page.locator("[data-time]").text_content()
    other = await open_page(page.url)
    await other.wait_for_selector(DRAWN)
    await expect(other.locator("[data-time]")).to_have_text(time or "")
    await expect(other.locator(PANEL).get_by_role("heading", level=2)).to_have_text(
        await said.text_content() or ""
    )
    await expect(other.get_by_label("Topic")).to_have_value("orders")


async def test_everything_is_done_by_the_keyboard(open_page: OpenPage, site: Site) -> None:
    page = await opened(open_page, site, "topic=orders")
    picture = page.get_by_role("application", name="Timeline")
    await picture.focus()
    status = page.locator("[data-status]")
    await page.keyboard.press("ArrowDown")
    await expect(status).to_have_text("orders-1")
    await page.keyboard.press("End")
    await expect(status).to_have_text("orders-11")
    await page.keyboard.press("Home")
    await expect(status).to_have_text("orders-0")
    await page.keyboard.press("n")
    await expect(status).to_contain_text(re.compile("created|broker|ISR|start-replica"))
    await page.keyboard.press("Enter")
    heading = page.locator(PANEL).get_by_role("heading", level=2)
    await expect(heading).to_be_focused()
    await expect(heading).to_contain_text("orders-0")
    await page.keyboard.press("Escape")
    await expect(page.locator(PANEL)).to_be_hidden()
    await expect(picture).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(heading).to_be_focused()
    await page.keyboard.press("Tab")
    await page.locator(PANEL).get_by_role("button", name="Close the explanation").press("Enter")
    await expect(page.locator(PANEL)).to_be_hidden()
    await expect(picture).to_be_focused()
    span = await page.locator("[data-time]").text_content()
    await page.keyboard.press("+")
    await expect(page.locator("[data-time]")).not_to_have_text(span or "")
    await page.keyboard.press("?")
    await expect(page.get_by_text("next and previous event of the row")).to_be_visible()


async def test_keys_go_through_all_events_of_a_row_and_back(open_page: OpenPage, site: Site) -> None:
    """An election changes the leader and the ISR in one event, so two entries have its time and its id."""
    page = await opened(open_page, site, "topic=orders&partition=0&kind=leader&kind=isr")
    await page.get_by_role("application", name="Timeline").focus()
    status = page.locator("[data-status]")

    async def heard(key: str, end: str) -> list[str]:
        said = [await status.text_content() or ""]
        while said[-1] != end:
            await page.keyboard.press(key)
            await expect(status).not_to_have_text(said[-1])
            said.append(await status.text_content() or "")
        return said[1:-1]

    forward = await heard("n", "No later event is known in this row.")
    moments = [each.rsplit(", ", 1)[1] for each in forward]
    assert len(set(moments)) < len(moments), forward
    assert await heard("p", "No earlier event is known in this row.") == forward[-2::-1]


async def test_a_sign_with_a_number_says_what_it_stands_for(open_page: OpenPage, site: Site) -> None:
    """In thirty days all elections of a broker are within a pixel."""
    now_ms = site.cluster.host.clock.wall_ms()
    from_ms, until_ms = now_ms - DAYS_15_MS, now_ms + DAYS_15_MS
    page = await opened(
        open_page, site, f"rows=broker&broker={site.killed}&kind=marks&from={from_ms}&until={until_ms}"
    )
    elected = page.locator(LINES).filter(has_text="elected: ")
    await expect(elected.filter(has_text="elected: orders-0")).to_have_count(1)
    words = [await each.inner_text() for each in await elected.all()]
    first = words[0].split("\t")[0]
    box = await page.locator("[data-sheet] canvas").bounding_box()
    at_ms = await elected.first.locator("time").evaluate("(time) => Date.parse(time.dateTime)")
    assert box is not None
    gutter = 212
    x = box["x"] + gutter + (at_ms - from_ms) / (until_ms - from_ms) * (box["width"] - gutter)
    beside, y = x - 5, box["y"] + 12
    await page.mouse.move(beside, y)
    tip = page.locator("[data-tip]")
    await expect(tip).to_contain_text(f"elected, {len(words)} times: orders-")
    await expect(tip).to_contain_text(first)
    await page.mouse.click(beside, y)
    panel = page.locator(PANEL)
    await expect(panel.get_by_role("heading", level=2)).to_contain_text(f"{len(words)} events, {first}")
    await panel.get_by_role("button", name=re.compile("elected: orders-0$")).click()
    await expect(panel.get_by_role("heading", level=2)).to_contain_text("leads orders-0 at epoch")


async def test_enter_zooms_in_to_what_is_too_much_for_a_list(open_page: OpenPage, site: Site) -> None:
    now_ms = site.cluster.host.clock.wall_ms()
    time = f"from={now_ms - DAYS_15_MS}&until={now_ms + DAYS_15_MS}"
    page = await opened(open_page, site, f"rows=broker&broker={site.killed}&kind=request&{time}")
    await page.get_by_role("application", name="Timeline").focus()
    status = page.locator("[data-status]")
    several = re.compile(r"\d\d events closer than a pixel: start-replica of .* and \d+ more, .* to ")
    await expect(page.locator(LINES).filter(has_text="start-replica of")).to_have_count(1)
    await page.keyboard.press("n")
    await expect(status).to_have_text(several)
    await page.keyboard.press("Enter")
    await expect(page.locator("[data-time]")).not_to_contain_text("30 days")
    await expect(page.locator(LINES).nth(5)).to_contain_text("start-replica of")
    await page.keyboard.press("n")
    await expect(status).not_to_have_text(several)


async def test_a_view_that_follows_shows_what_happens(open_page: OpenPage, site: Site) -> None:
    page = await opened(open_page, site, "rows=broker&follow=1")
    follow = page.get_by_role("button", name="follow live")
    await expect(follow).to_have_attribute("aria-pressed", "true")
    killed = page.locator(LINES).filter(has_text=f"broker {site.killed}")
    await expect(killed.filter(has_text="gone")).to_have_count(1)
    seen = killed.filter(has_text="alive")
    await expect(seen.get_by_role("cell").first).to_contain_text("before ")
    await expect(seen.get_by_role("cell").last).to_have_text("not known")
    await follow.click()
    await expect(follow).to_have_attribute("aria-pressed", "false")


async def test_what_is_new_comes_without_a_reload(open_page: OpenPage, site: Site) -> None:
    page = await opened(open_page, site, "text=fresh&kind=leader&follow=1")
    await expect(page.locator("[data-table-note]")).to_contain_text("0 entries")
    await site.cluster.create_topic("fresh", replication_factor=2)
    await expect(
        page.locator(LINES).filter(has_text="fresh-0").filter(has_text="leads at epoch")
    ).to_have_count(1)


async def test_a_click_on_a_bar_explains_it(open_page: OpenPage, site: Site) -> None:
    page = await opened(open_page, site, "topic=orders&partition=0&kind=leader")
    box = await page.locator("[data-sheet] canvas").bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 18)
    await expect(page.locator("[data-tip]")).to_contain_text("leads at epoch")
    await page.mouse.click(box["x"] + box["width"] - 3, box["y"] + 18)
    await expect(page.locator(PANEL).get_by_role("heading", level=2)).to_contain_text("orders-0")


async def test_without_scripts_nothing_is_there_that_needs_them(open_page: OpenPage, site: Site) -> None:
    page = await open_page(f"{site.address}/timeline", java_script_enabled=False)
    await expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    await expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)
    await expect(page.get_by_role("heading", name="Events in sight")).to_be_hidden()


async def test_filters_are_in_the_address(open_page: OpenPage, site: Site) -> None:
    page = await opened(open_page, site)
    await page.get_by_label("Text").fill("orders-1")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("text=orders-1"))
    await expect(page.locator(LINES).filter(has_text="orders-0")).to_have_count(0)
    await expect(page.locator(LINES).filter(has_text="orders-11").first).to_be_visible()
    await page.get_by_role("combobox", name="Rows").select_option("request")
    await expect(page).to_have_url(re.compile("rows=request"))


async def test_the_first_view_is_as_long_as_what_is_kept(open_page: OpenPage, site: Site) -> None:
    page = await opened(open_page, site, "follow=1")
    await expect(page).to_have_url(re.compile("from="))
    begin, end = await page.evaluate(SHOWN)
    answer = await page.evaluate("fetch('/api/timeline').then((answer) => answer.json())")
    kept = answer["now"] - answer["kept_from"]
    assert 60_000 <= round(end - begin) <= max(60_000, kept * 1.03)
    note = page.locator("[data-table-note]")
    await page.get_by_role("button", name="1 day").click()
    await expect(note).to_contain_text(re.compile(r"Nothing was read from before \d\d:\d\d:\d\d\."))


async def test_a_filter_is_removed_without_losing_the_time(open_page: OpenPage, site: Site) -> None:
    page = await opened(open_page, site, "topic=orders&partition=1&kind=leader")
    await page.get_by_role("button", name="follow live").click()
    time = await page.locator("[data-time]").text_content()
    await page.get_by_role("link", name="partition 1").click()
    await expect(page.locator(LINES).filter(has_text="orders-11").first).to_be_visible()
    await expect(page).to_have_url(re.compile("topic=orders&kind=leader"))
    await expect(page.locator("[data-time]")).to_have_text(time or "")
    await expect(page.locator("[data-active]")).to_have_text(re.compile(r"topic orders\W+remove\W*leaders"))


async def test_rows_are_in_sight_on_a_phone_though_filters_hold(open_page: OpenPage, site: Site) -> None:
    page = await opened(open_page, site, "topic=orders&kind=leader&kind=isr", size=PHONE)
    box = await page.locator("[data-sheet] canvas").bounding_box()
    assert box is not None and box["y"] < PHONE[1] - 60
    await expect(page.get_by_label("leaders")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, (1600, 1000)])
async def test_it_can_be_used_by_everyone(
    open_page: OpenPage, site: Site, size: tuple[int, int], scheme: str
) -> None:
    page = await opened(open_page, site, size=size, scheme=scheme)
    await line(page, "orders", "leads at epoch")
    await expect(page.locator(PANEL).get_by_role("heading", level=2)).to_contain_text("orders")
    await check_usable(page)


async def test_the_folder_of_a_run_is_shown_without_a_cluster(open_page: OpenPage, tmp_path: Path) -> None:
    write_round(tmp_path / "seed-7")
    stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
    settings = load(ConsoleSettings, listen="127.0.0.1:0")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve_runs(settings, [tmp_path], stop, address.set_result))
        page = await open_page(await address)
        await page.get_by_role("link", name="seed-7").click()
        await page.wait_for_selector(DRAWN)
        await line(page, "faults", "kill: broker 1")
        await expect(page.locator(PANEL).get_by_role("heading", level=2)).to_have_text("Kill: broker 1.")
        await line(page, "orders-0", "broker 2 leads at epoch 2")
        await expect(page.locator(PANEL)).to_contain_text("state-changes.jsonl, line 2")
        await expect(page.locator(LINES).filter(has_text="8.000 s").first).to_be_visible()
        last = page.locator(LINES).filter(has_text="broker 2 leads at epoch 2")
        await expect(last.get_by_role("cell").last).to_have_text("to the end")
        assert await serious_findings(page) == []
        time = page.locator("[data-time]")
        whole = await time.text_content()
        await page.get_by_role("button", name="Zoom in").click()
        await expect(time).not_to_have_text(whole or "")
        await page.get_by_role("button", name="whole run").click()
        await expect(time).to_have_text(whole or "")
        stop.set()


async def test_it_says_what_is_not_known_of_the_present(open_page: OpenPage, site: Site) -> None:
    """The answer is that of an outage: nothing was read for a minute, and who leads orders-0 is not known."""

    async def of_an_outage(route: Route) -> None:
        answer = await (await route.fetch()).json()
        items = answer["rows"][0]["lanes"][0]["items"]
        items[-1]["unknown"] = "no broker answers"
        await route.fulfill(json={**answer, "read_until": answer["now"] - 60_000})

    page = await open_page(site.address)
    await page.route("**/api/timeline?*", of_an_outage)
    await page.goto(f"{site.address}/timeline?topic=orders")
    await page.wait_for_selector(DRAWN)
    behind = re.compile(r"Events are read up to \d\d:\d\d:\d\d: what happened since is not shown yet")
    await expect(page.locator("[data-trouble]")).to_have_text(behind)
    last = (
        page.locator(LINES)
        .filter(has_text="orders-0")
        .filter(has_text="not known: no broker answers; last known")
    )
    await expect(last).to_have_count(1)
    await page.unroute_all(behavior="ignoreErrors")
