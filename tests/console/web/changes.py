"""Changes as a browser makes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tests.console.web.browser import Answer, Browser
from tests.waiting import eventually

_DO: Final = 'action="/changes/do"'


async def planned(browser: Browser, kind: str, fields: Mapping[str, object]) -> Answer:
    """The page that shows the effect."""
    answer = await browser.post(f"/changes/{kind}/plan", fields)
    assert answer.status == 303, answer.words
    return await browser.get(answer.headers["location"])


def hidden(page: Answer) -> dict[str, object]:
    """The fields of the form that does the change."""
    form = page.text[page.text.index(_DO) :]
    fields = dict(re.findall(r'name="(plan|seen)" value="(\w+)"', form))
    assert fields.keys() == {"plan", "seen"}
    return fields


async def done(browser: Browser, page: Answer, **typed: str) -> Answer:
    """The page with the outcome."""
    answer = await browser.post("/changes/do", {**hidden(page), **typed})
    assert answer.status == 303, answer.words
    return await browser.get(answer.headers["location"])


async def done_at_last(browser: Browser, page: Answer) -> Answer:
    """The same for a plan of what has just changed. Each broker shows what it read up to half a second ago:
    as long as two of them differ, the plan is shown again."""

    async def is_done() -> bool:
        nonlocal page
        page = await done(browser, page)
        return _DO not in page.text

    await eventually(is_done, what="the plan that was seen is what would happen now")
    return page
