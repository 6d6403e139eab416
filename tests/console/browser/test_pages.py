"""Opens each page of the console in light and dark, at two widths, by keyboard and with axe-core."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest

from strandline import Admin, Producer, TopicPartition
from strandline.local.cluster import LocalCluster
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
