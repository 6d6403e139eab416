"""Changes as a browser makes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.console.web.browser import Answer, Browser


async def planned(browser: Browser, kind: str, fields: Mapping[str, object]) -> Answer:
    """The page that shows the effect."""
    answer = await browser.post(f"/changes/{kind}/plan", fields)
    assert answer.status == 303, answer.words
    return await browser.get(answer.headers["location"])


def hidden(page: Answer) -> dict[str, object]:
    """The fields of the form that does the change."""
    form = page.text[page.text.index('action="/changes/do"') :]
    fields = dict(re.findall(r'name="(plan|seen)" value="(\w+)"', form))
    assert fields.keys() == {"plan", "seen"}
    return fields


async def done(browser: Browser, page: Answer, **typed: str) -> Answer:
    """The page with the outcome."""
    answer = await browser.post("/changes/do", {**hidden(page), **typed})
    assert answer.status == 303, answer.words
    return await browser.get(answer.headers["location"])
