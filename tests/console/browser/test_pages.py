"""Opens each page of the console in light and dark, at two widths, by keyboard and with axe-core."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest

from strandline.local.cluster import LocalCluster
from tests.console.browser.accessibility import serious_findings
from tests.console.browser.conftest import PHONE, WIDE, OpenPage, Scheme
from tests.console.serving import serving

PAGES: Final = ("/",)


@pytest.fixture(scope="module")
async def console(cluster: LocalCluster) -> AsyncIterator[str]:
    async with serving(bootstrap=cluster.bootstrap) as address:
        yield address


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")])
async def test_a_page_can_be_used_by_everybody(
    console: str, open_page: OpenPage, path: str, size: tuple[int, int], scheme: Scheme
) -> None:
    page = await open_page(console + path, size=size, scheme=scheme)
    assert await serious_findings(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= size[0], "it scrolls to the side"


@pytest.mark.parametrize("path", PAGES)
async def test_the_first_key_leads_to_the_content(console: str, open_page: OpenPage, path: str) -> None:
    page = await open_page(console + path)
    await page.keyboard.press("Tab")
    assert "Skip" in await page.evaluate("document.activeElement.textContent")
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"
