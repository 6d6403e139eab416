"""Consoles of this process beside clusters in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from strandline.config.console import ConsoleSettings
from strandline.config.load import load
from strandline.console.process import running, serve
from strandline.console.web.admins import Connection
from strandline.console.web.app import application
from strandline.console.web.context import Console
from strandline.testing import MemoryCluster
from tests.console.web.browser import Browser


@asynccontextmanager
async def console_of(cluster: MemoryCluster, **settings: object) -> AsyncIterator[Console]:
    """A console with these settings."""
    connection = Connection(cluster.bootstrap, host=cluster.host)
    async with running(load(ConsoleSettings, **settings), connection) as console:
        yield console


@asynccontextmanager
async def served(
    cluster: MemoryCluster, stop: asyncio.Event | None = None, **settings: object
) -> AsyncIterator[str]:
    """The address of a console that browsers can reach, which ends once `stop` is set."""
    given = load(ConsoleSettings, **{"listen": "127.0.0.1:0", **settings})
    stop, address = stop or asyncio.Event(), asyncio.get_running_loop().create_future()
    connection = Connection(cluster.bootstrap, host=cluster.host)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(given, connection, stop, address.set_result))
        try:
            yield (await address).rstrip("/")
        finally:
            stop.set()


@asynccontextmanager
async def browser_of(cluster: MemoryCluster, **settings: object) -> AsyncIterator[Browser]:
    """A browser of a console with these settings."""
    async with console_of(cluster, **settings) as console:
        yield Browser(application(console))
