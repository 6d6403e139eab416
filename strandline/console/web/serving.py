"""Serves a site to browsers until it should stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog
from starlette.types import ASGIApp

from strandline.adapters.tls.reloaded import ReloadedPem
from strandline.adapters.tls.server_context import NewestContext
from strandline.console.web import server
from strandline.console.web.context import Site

logger = structlog.get_logger(__name__)


@asynccontextmanager
async def living(site: Site, *parts: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs these parts of a site, which do not end, and ends sessions in time, until the end of the block.
    Streams and sessions end with it."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(part) for part in (*parts, site.sessions.sweep())]
        try:
            yield
        finally:
            site.end_streams()
            for task in running:
                task.cancel()
            await site.sessions.end_all()


async def serve_site(
    site: Site, application: ASGIApp, stop: asyncio.Event, ready: Callable[[str], None]
) -> None:
    """Serves until `stop` is set; `ready` gets the address once browsers can connect.

    Raises SettingsError.
    """
    settings = site.settings
    tls = None
    if settings.encrypted:
        pem = ReloadedPem(settings, site.clock, demands_certificates=settings.demands_certificates)
        tls = NewestContext(pem)
    listener = server.bind(settings)
    port = listener.getsockname()[1]
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"{'https' if settings.encrypted else 'http'}://{shown}:{port}/"
    logger.info("the console is served", address=address, changes=settings.allow_changes)
    ready(address)

    async def end_streams() -> None:
        await stop.wait()
        site.end_streams()

    with listener:
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(end_streams())
            await server.serve(application, settings, listener, stop, tls)
            ending.cancel()
    logger.info("the console has ended")
