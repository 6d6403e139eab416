"""Three real brokers in a browser: changes by the page are shown, done, watched, taken back and refused; a
leader is killed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Locator, Page, expect

from strandline import Admin, Producer
from strandline.local.cluster import LocalCluster
from strandline.vocabulary.admin import NewTopic
from tests.console.browser.conftest import OpenPage, Watch
from tests.console.serving import serving

TOPIC = "ledger"
RECORDS, RECORD_BYTES = 200, 20_000
THROTTLE = 100_000
"""Bytes a second: the move takes longer than the test."""


@pytest.fixture(scope="module")
async def ledger(cluster: LocalCluster) -> LocalCluster:
    """A topic on one broker, with some megabytes."""
    async with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        _ = await admin.create_topics([NewTopic(TOPIC, assignments=[[1]])])
        for _ in range(RECORDS):
            _ = await producer.send(TOPIC, b"x" * RECORD_BYTES)
        await producer.flush()
    return cluster


@pytest.fixture(scope="module")
async def writing(ledger: LocalCluster) -> AsyncIterator[str]:
    """A console that may change the cluster."""
    async with serving("--allow-changes", bootstrap=ledger.bootstrap) as address:
        yield address


@pytest.fixture(scope="module")
async def reading(ledger: LocalCluster) -> AsyncIterator[str]:
    """A console that may not."""
    async with serving(bootstrap=ledger.bootstrap) as address:
        yield address


async def press(place: Page | Locator, button: str) -> None:
    await place.get_by_role("button", name=button).first.click()


async def test_a_reassignment_is_shown_started_watched_and_cancelled(
    ledger: LocalCluster, writing: str, open_page: OpenPage
) -> None:
    page = await open_page(f"{writing}/topics/{TOPIC}")
    form = page.locator("form[action='/changes/reassign/plan']")
    await form.get_by_label("Brokers").fill("2")
    await form.get_by_label("At most bytes").fill(str(THROTTLE))
    await press(form, "Show what this would do")
    await expect(page.get_by_text("Nothing is done yet")).to_be_visible()
    async with Admin(ledger.bootstrap) as admin:
        assert not await admin.list_reassignments(), "showing it did it"
        await press(page.locator("form#do"), "")
        await expect(page.get_by_text("done", exact=True)).to_be_visible()

        await page.goto(f"{writing}/moves")
        row = page.get_by_role("row").filter(has_text=f"{TOPIC}-0")
        bar = row.get_by_role("progressbar")
        begun = await bar.evaluate("each => each.value")
        await expect(row).to_contain_text("100.0 kB/s")
        await page.wait_for_function("begun => document.querySelector('progress').value > begun", arg=begun)

        await press(row, "Cancel…")
        await press(page.locator("form#do"), "")
        await expect(page.get_by_text("done", exact=True)).to_be_visible()
        await page.goto(f"{writing}/moves")
        await expect(page.get_by_text("No replica moves now")).to_be_visible()
        (found,) = await admin.describe_topics([TOPIC])
        assert found.partitions[0].replicas == (1,)

    await page.goto(f"{writing}/timeline?topic={TOPIC}&kind=reassignment")
    await expect(page.locator("[data-table] tbody tr").first).to_contain_text(re.compile("reassignment .*2"))


async def test_the_server_refuses_a_change_without_leave(
    ledger: LocalCluster, reading: str, writing: str, open_page: OpenPage, watch: Watch
) -> None:
    """No page of it has the form; a form made by hand is refused too."""
    watch.expected = ("403",)
    page = await open_page(f"{reading}/topics/{TOPIC}")
    assert await page.locator("form[action^='/changes']").count() == 0
    asked = """async kind => {
        const csrf = document.querySelector("meta[name=csrf-token]").content;
        const body = new URLSearchParams({ csrf, topic: "ledger", partition: "0", replicas: "3" });
        const answer = await fetch(`/changes/${kind}/plan`, { method: "POST", body });
        return [answer.status, await answer.text()];
    }"""
    status, text = await page.evaluate(asked, "reassign")
    assert status == 403 and "--allow-changes" in text
    status, text = await page.evaluate(asked, "delete-topic")
    assert status == 403
    async with Admin(ledger.bootstrap) as admin:
        assert TOPIC in await admin.list_topics()
        placed = (await admin.describe_topics([TOPIC]))[0].partitions[0]
        assert 3 not in placed.replicas


async def test_a_killed_leader_is_on_the_open_overview_which_leads_to_the_cause(
    ledger: LocalCluster, reading: str, open_page: OpenPage
) -> None:
    async with Admin(ledger.bootstrap) as admin:
        _ = await admin.create_topics([NewTopic("paid", assignments=[[2, 3, 1]])])
    page = await open_page(reading)
    troubles = page.locator("ul.troubles").get_by_role("listitem")
    all_is_well = page.get_by_text("Every partition has a leader, and all its replicas in sync.")
    await all_is_well.wait_for()
    await ledger.kill_broker(2)
    await troubles.filter(has_text=re.compile(r"Broker 2 is away\. It has \d+ replicas\.")).wait_for()
    lack = troubles.filter(has_text=re.compile("fewer replicas in sync than assigned; broker 2 is away"))
    await lack.filter(has=page.get_by_text("paid-0", exact=True)).wait_for(state="attached")
    await page.goto(f"{reading}/timeline?topic=paid&kind=leader")
    row = page.locator("[data-table] tbody tr").filter(has_text=re.compile("broker [13] leads at epoch"))
    await row.first.get_by_role("button").click()
    await expect(page.locator("[data-panel]")).to_contain_text(
        re.compile("broker 2 (is gone|does not answer)")
    )
    await page.goto(reading)
    await ledger.start_broker(2)
    await all_is_well.wait_for()
