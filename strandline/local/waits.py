"""Waits for the processes of a local cluster, and for its folder's lock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import ExitStack, asynccontextmanager
from typing import Final

from strandline.errors import StrandlineError
from strandline.local.console_process import ConsoleProcess
from strandline.local.layout import Layout, Locked
from strandline.local.service import Service

START_S_MAX: Final = 30.0
LOCK_S_MAX: Final = 2 * START_S_MAX
"""How long a stop waits for a process that starts the cluster; a start ends within its own limit."""
LOCK_POLL_S: Final = 0.05


@asynccontextmanager
async def locked(layout: Layout) -> AsyncIterator[None]:
    """Hold the folder's lock, after waiting for it. Raises SettingsError after LOCK_S_MAX."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LOCK_S_MAX
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(layout.lock())
                break
            except Locked:
                if loop.time() >= deadline:
                    raise
            await asyncio.sleep(LOCK_POLL_S)
        yield


async def serving(service: Service | ConsoleProcess, timeout_s: float) -> None:
    """Returns once it serves. Raises ProcessFailed."""
    try:
        async with asyncio.timeout(timeout_s):
            await service.wait_serving()
    except TimeoutError:
        assert service.process is not None  # otherwise wait_serving raises
        raise service.process.failure(f"does not serve after {timeout_s:g} s") from None


async def all_of(waits: Iterable[Awaitable[None]]) -> None:
    """Waits for all concurrently; the first StrandlineError ends the others and is raised without a group."""

    async def wait(one: Awaitable[None]) -> None:
        await one

    try:
        async with asyncio.TaskGroup() as group:
            for one in waits:
                group.create_task(wait(one))
    except* StrandlineError as failures:
        first = failures.exceptions[0]
    else:
        return
    raise first
