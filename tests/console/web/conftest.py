"""A cluster in memory for each module, and a browser of a console that may change it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from strandline.config.console import ConsoleSettings
from strandline.config.load import load
from strandline.console.process import running
from strandline.console.web.admins import Connection
from strandline.console.web.app import application
from strandline.testing import MemoryCluster
from tests.console.web.browser import Browser


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
async def changing(cluster: MemoryCluster) -> AsyncIterator[Browser]:
    """A browser of a console with `--allow-changes`."""
    connection = Connection(cluster.bootstrap, host=cluster.host)
    async with running(load(ConsoleSettings, allow_changes=True), connection) as console:
        yield Browser(application(console))
