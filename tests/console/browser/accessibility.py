"""Finds what a screen reader, a keyboard or weak eyes cannot use, by axe-core."""

from __future__ import annotations

from typing import Any, Final

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

SERIOUS: Final = ("serious", "critical")
WIDER: Final = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


async def check_usable(page: Page) -> None:
    """Raises AssertionError if axe-core finds something serious, or if the page scrolls to the side."""
    found = await serious_findings(page)
    assert not found, found
    assert await page.evaluate(WIDER) <= 0, "it scrolls to the side"


async def serious_findings(page: Page) -> list[str]:
    """A line for each serious or critical finding: the rule, what it says, and the first elements."""
    results = await Axe().run(page)
    return [_line(each) for each in results.response["violations"] if each["impact"] in SERIOUS]


def _line(finding: dict[str, Any]) -> str:
    where = [node["html"][:120] for node in finding["nodes"][:3]]
    return f"{finding['id']} ({finding['impact']}): {finding['help']}: {where}"
