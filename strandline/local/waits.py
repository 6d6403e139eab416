"""Waits for several processes of a local cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable

from strandline.local.process import ProcessFailed
from strandline.local.service import Service


async def serving(service: Service, timeout_s: float) -> None:
    """Returns once it serves. Raises ProcessFailed."""
    try:
        async with asyncio.timeout(timeout_s):
            await service.wait_serving()
    except TimeoutError:
        assert service.process is not None  # otherwise wait_serving raises
        raise service.process.failure(f"did not serve within {timeout_s} s") from None


async def all_of(waits: Iterable[Awaitable[None]]) -> None:
    """Waits for all concurrently; the first failure ends the others and is raised without a group."""

    async def wait(one: Awaitable[None]) -> None:
        await one

    try:
        async with asyncio.TaskGroup() as group:
            for one in waits:
                group.create_task(wait(one))
    except* ProcessFailed as failures:
        first = failures.exceptions[0]
    else:
        return
    raise first
