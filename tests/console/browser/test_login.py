"""Logging in and out, in a real browser: its cookies, origins and redirects are its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.local.cluster import LocalCluster
from tests.console.browser.accessibility import serious_findings
from tests.console.browser.conftest import PHONE, WIDE, OpenPage, Watch
from tests.console.serving import serving


@pytest.mark.parametrize("size", [WIDE, PHONE])
async def test_a_token_opens_the_page_that_was_asked_for(
    cluster: LocalCluster, open_page: OpenPage, watch: Watch, tmp_path: Path, size: tuple[int, int]
) -> None:
    """The file is made with the console. A wrong token is refused in words."""
    watch.expected = ("401",)  # the browser notes the refused login
    file = tmp_path / "token"
    async with serving("--token-file", str(file), bootstrap=cluster.bootstrap) as address:
        page = await open_page(f"{address}/topics?internal=1", size=size)
        assert await serious_findings(page) == []
        await page.get_by_label("Token").fill("this is another one")
        await page.get_by_role("button", name="Log in").click()
        await page.get_by_role("alert").get_by_text("This is not the token.").wait_for()
        await page.get_by_label("Token").fill(file.read_text().strip())
        await page.get_by_role("button", name="Log in").click()
        await page.wait_for_url("**/topics?internal=1")
        cookies = await page.context.cookies()
        assert [(each["httpOnly"], each["sameSite"]) for each in cookies] == [(True, "Strict")]
        await page.get_by_role("button", name="Log out").click()
        await page.wait_for_url("**/login")
        await page.goto(f"{address}/topics")
        assert "/login?" in page.url
