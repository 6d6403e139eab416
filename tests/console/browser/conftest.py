"""A real browser: Debian's Chromium, driven by Playwright.

Each test has a profile of its own. A page that reports an error, breaks its content security policy, or asks
another host than the console for anything fails the test that opened it.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, ConsoleMessage, Error, Page, Request, async_playwright

CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome")
# Root may run it without a sandbox only; the other switches keep it from asking hosts of its maker.
SWITCHES: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
STEP_MS_MAX: Final = 20_000

WIDE: Final = (1600, 1000)
PHONE: Final = (360, 740)

Scheme = Literal["light", "dark"]
OpenPage = Callable[..., Coroutine[Any, Any, Page]]


def chromium() -> str | None:
    """The path of a browser; None if there is none on PATH."""
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/console/browser/" in item.nodeid:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One Chromium for all tests of this process."""
    executable = chromium()
    if executable is None:
        pytest.skip(f"NOT RUN: no browser is on PATH, looked for {', '.join(CHROMIUM)}")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=list(SWITCHES))
        yield browser
        await browser.close()


class Watch:
    """What pages report that a user would not want: errors, and requests to other hosts."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.expected: tuple[str, ...] = ()
        """Parts of messages that a test provokes."""

    def follow(self, page: Page) -> None:
        page.on("console", self._said)
        page.on("pageerror", self._failed)
        page.on("request", self._asked)

    def check(self) -> None:
        surprising = [each for each in self.found if not any(part in each for part in self.expected)]
        assert not surprising, surprising

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.found.append(f"{message.type}: {message.text} ({message.location.get('url')})")

    def _failed(self, error: Error) -> None:
        self.found.append(f"uncaught: {error}")

    def _asked(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and address.hostname not in ("127.0.0.1", "localhost"):
            self.found.append(f"asked another host: {request.url}")


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    watch = Watch()
    yield watch
    watch.check()


@pytest.fixture
async def open_page(browser: Browser, watch: Watch) -> AsyncIterator[OpenPage]:
    """Opens an address in a new profile: `page = await open_page(url, size=PHONE, scheme="dark")`."""
    async with AsyncExitStack() as opened:

        async def open_one(
            url: str, *, size: tuple[int, int] = WIDE, scheme: Scheme = "light", **context: Any
        ) -> Page:
            width, height = size
            profile = await browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme, **context
            )
            opened.push_async_callback(profile.close)
            profile.set_default_timeout(STEP_MS_MAX)
            page = await profile.new_page()
            watch.follow(page)
            await page.goto(url)
            return page

        yield open_one
