"""Opens each page of the console in light and dark, at two widths, by keyboard and with axe-core; and that of
a stream application while a learner is behind."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import expect

from strandline import Admin, Producer, TopicPartition
from strandline.local.cluster import LocalCluster
from strandline.security.quotas.model import Quota, QuotaAlteration, QuotaEntity
from strandline.streams import INTEGER, STRING, Streams, Topology
from tests.console.browser.accessibility import check_usable
from tests.console.browser.conftest import PHONE, WIDE, OpenPage, Scheme
from tests.console.serving import serving

PAGES: Final = (
    "/",
    "/timeline",
    "/topics",
    "/topics/orders",
    "/moves",
    "/groups",
    "/groups/readers",
    "/streams",
)


@pytest.fixture(scope="module")
async def console(cluster: LocalCluster) -> AsyncIterator[str]:
    """It shows a topic with a record, and a group, and has the forms of all changes."""
    async with (
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap) as producer,
        serving("--allow-changes", bootstrap=cluster.bootstrap) as address,
    ):
        await admin.create_topic("orders", partitions=3, replication_factor=3)
        _ = await producer.send_and_wait("orders", b'{"paid": true}', key=b"Bergen", partition=0)
        await admin.alter_group_offsets("readers", {TopicPartition("orders", 0): 0})
        yield address


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")])
async def test_a_page_can_be_used_by_everybody(
    console: str, open_page: OpenPage, path: str, size: tuple[int, int], scheme: Scheme
) -> None:
    await check_usable(await open_page(console + path, size=size, scheme=scheme))


@pytest.mark.parametrize("path", PAGES)
async def test_the_first_key_leads_to_the_content(console: str, open_page: OpenPage, path: str) -> None:
    page = await open_page(console + path)
    await page.keyboard.press("Tab")
    assert "Skip" in await page.evaluate("document.activeElement.textContent")
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"


KEYS: Final = 800
KEY: Final = "x" * 10_000
"""A fetch brings some fifty of them."""
STEP_MS_MAX: Final = 60_000


def application(cluster: LocalCluster, state: Path, **settings: Any) -> Streams:
    topology = Topology()
    topology.source("held", key=STRING).count("by-key").to("held-counts", key=STRING, value=INTEGER)
    given = {"client_id": state.name, "state_dir": state, **settings}
    return Streams(topology, cluster.bootstrap, application_id="holding", **given)


@pytest.mark.timeout(300)
async def test_a_learner_that_a_quota_holds_back_is_shown_behind_until_it_takes_over(
    cluster: LocalCluster, console: str, open_page: OpenPage, tmp_path: Path
) -> None:
    """After each fetch it waits for as long as a broker holds back a client that is over its quota."""
    entity = QuotaEntity(None, "learner")
    async with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        await admin.alter_client_quotas([QuotaAlteration(entity, {Quota.CONSUMER_BYTE_RATE: 1.0})])
        for topic in ("held", "held-counts"):
            await admin.create_topic(topic, partitions=2, replication_factor=3)
        for number in range(KEYS):
            _ = await producer.send("held", b"", key=f"{number}{KEY}".encode())
        await producer.flush()
        async with application(cluster, tmp_path / "owner"):
            page = await open_page(f"{console}/streams/holding")
            runs = page.get_by_role("row", name=re.compile("held-[01] 0 owner runs it none"))
            await expect(runs).to_have_count(2, timeout=STEP_MS_MAX)
            async with application(cluster, tmp_path / "learner", acceptable_lag=0):
                main = page.get_by_role("main")
                behind = re.compile(r"learner\s+learns it; [1-9]\d* records? behind")
                await expect(main).to_contain_text(behind, timeout=STEP_MS_MAX)
                await check_usable(page)
                await admin.alter_client_quotas([QuotaAlteration(entity, {Quota.CONSUMER_BYTE_RATE: None})])
                await expect(main).to_contain_text(re.compile(r"learner\s+runs it"), timeout=STEP_MS_MAX)
                await expect(main).not_to_contain_text("behind")
