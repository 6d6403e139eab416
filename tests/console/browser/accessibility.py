"""Finds what a screen reader, a keyboard or weak eyes cannot use, by axe-core."""

from __future__ import annotations

from typing import Any, Final

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

SERIOUS: Final = ("serious", "critical")


async def serious_findings(page: Page) -> list[str]:
    """A line for each serious or critical finding: the rule, what it says, and the first elements."""
    results = await Axe().run(page)
    return [_line(each) for each in results.response["violations"] if each["impact"] in SERIOUS]


def _line(finding: dict[str, Any]) -> str:
    where = [node["html"][:120] for node in finding["nodes"][:3]]
    return f"{finding['id']} ({finding['impact']}): {finding['help']}: {where}"
