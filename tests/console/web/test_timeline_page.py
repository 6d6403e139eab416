"""The page of the timeline, without its picture."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote, urljoin

import pytest

from strandline.testing import MemoryCluster
from tests.console.web.browser import Browser
from tests.console.web.consoles import browser_of


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with MemoryCluster(brokers=1) as cluster, browser_of(cluster) as browser:
        yield browser


async def test_the_page_has_the_filters_of_its_address(browser: Browser) -> None:
    page = (await browser.get("/timeline?rows=group&topic=orders&kind=leader&changed=1")).text
    assert '<option value="group" selected>' in page
    assert 'name="topic" value="orders"' in page
    assert 'name="kind" value="leader" checked>' in page and 'name="kind" value="isr">' in page
    assert 'name="changed" value="1" checked>' in page
    assert " style=" not in page and "<style" not in page


async def test_filters_that_hold_are_words_with_a_link_that_removes_them(browser: Browser) -> None:
    page = (await browser.get("/timeline?rows=group&topic=a%26b&kind=leader&kind=isr&from=1&until=9")).text
    assert '<details class="timeline-more">' in page
    without_topic = "?rows=group&amp;kind=leader&amp;kind=isr&amp;from=1&amp;until=9"
    assert f'<a href="{without_topic}">topic a&amp;b ' in page
    without_isr = "?rows=group&amp;topic=a%26b&amp;kind=leader&amp;from=1&amp;until=9"
    assert f'<a href="{without_isr}">in-sync replicas ' in page


async def test_what_an_address_says_is_shown_as_text(browser: Browser) -> None:
    hostile = '"><script>alert(1)</script>'
    page = (
        await browser.get(f"/timeline?text={quote(hostile)}&rows={quote(hostile)}&kind={quote(hostile)}")
    ).text
    assert "<script>alert" not in page and "&lt;script&gt;" in page
    assert '<option value="partition" selected>' in page


async def test_a_filter_is_bounded(browser: Browser) -> None:
    assert (await browser.get(f"/timeline?text={'x' * 301}")).status == 400


async def test_every_module_that_the_page_needs_is_served(browser: Browser) -> None:
    """A module that imports one that is not there leaves the page without its picture."""
    seen: set[str] = set()
    wanted = ["/static/timeline/main.js"]
    while wanted:
        path = wanted.pop()
        if path in seen:
            continue
        seen.add(path)
        answer = await browser.get(path)
        assert answer.status == 200, path
        for line in answer.text.splitlines():
            if line.startswith(("import ", "export ")) and ' from "' in line:
                wanted.append(urljoin(path, line.split(' from "')[1].split('"')[0]))
    assert len(seen) > 10
