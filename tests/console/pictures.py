"""Makes the pictures of docs/run/console.md: `python -m tests.console.pictures`.

They show a real cluster of three brokers in which a leader was killed and groups have grown.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from playwright.async_api import Page, async_playwright

from tests.console.browser.conftest import CHROMIUM, PHONE, SWITCHES, chromium
from tests.console.scene import lively
from tests.console.serving import serving

FOLDER: Final = Path(__file__).parents[2] / "docs" / "run" / "pictures"
WIDE: Final = (1280, 720)
SETTLE_MS: Final = 7_000
"""For figures that come with the second look at the cluster, such as rates."""
DRAWN_MS: Final = 1_000


async def _nothing(_: Page) -> None:
    pass


async def _explain(page: Page) -> None:
    """Open the explanation of the first row's last event."""
    await page.locator("[data-rows]").focus()
    for key in ("Home", "p", "Enter"):
        await page.keyboard.press(key)


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    path: str
    size: tuple[int, int] = WIDE
    scheme: Literal["light", "dark"] = "light"
    first: Callable[[Page], Awaitable[None]] = _nothing


PICTURES: Final = (
    Picture("overview", "/"),
    Picture("timeline", "/timeline?topic=orders", first=_explain),
    Picture("timeline-groups", "/timeline?rows=group", scheme="dark"),
    Picture("timeline-phone", "/timeline?topic=orders", PHONE),
    Picture("topic", "/topics/orders"),
    Picture("records", "/topics/orders/2/records", scheme="dark"),
    Picture("group", "/groups/billing"),
    Picture("streams", "/streams/harbours", scheme="dark"),
)


async def take(console: str, folder: Path, wanted: tuple[Picture, ...] = PICTURES) -> None:
    """Writes `folder`/console-NAME.png for each."""
    executable = chromium()
    if executable is None:
        sys.exit(f"no browser is on PATH: install one of {', '.join(CHROMIUM)}")
    folder.mkdir(parents=True, exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=list(SWITCHES))
        for each in wanted:
            width, height = each.size
            page = await browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme=each.scheme,
                timezone_id="UTC",
                locale="en-GB",
            )
            answer = await page.goto(console + each.path)
            assert answer is not None and answer.ok, f"{each.path}: {answer and answer.status}"
            await page.wait_for_timeout(SETTLE_MS)
            await each.first(page)
            await page.wait_for_timeout(DRAWN_MS)
            await page.screenshot(path=folder / f"console-{each.name}.png")
            await page.close()
            print(f"{each.name}: {each.path}", file=sys.stderr)
        await browser.close()


async def main() -> None:
    """Make the cluster, and all pictures."""
    with tempfile.TemporaryDirectory() as directory:
        async with (
            lively(Path(directory)) as cluster,
            serving("--allow-changes", bootstrap=cluster.bootstrap) as console,
        ):
            await take(console, FOLDER)


if __name__ == "__main__":
    asyncio.run(main())
