"""A cluster in memory for each module, and a browser of a console that may change it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from strandline.testing import MemoryCluster
from tests.console.web.browser import Browser
from tests.console.web.consoles import browser_of


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
async def changing(cluster: MemoryCluster) -> AsyncIterator[Browser]:
    """A browser of a console with `--allow-changes`."""
    async with browser_of(cluster, allow_changes=True) as browser:
        yield browser
