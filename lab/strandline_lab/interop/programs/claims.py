"""Prints what a client does, a line for each claim: `passed NAME`, or `failed NAME: reason`."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable


def version(text: str) -> None:
    """The client's version."""
    print(f"version {text}", flush=True)


def claim(name: str, work: Callable[[], object]) -> None:
    """Runs the work. The claim holds if it raises nothing."""
    try:
        work()
    except Exception as error:
        traceback.print_exc()
        print(f"failed {name}: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
    else:
        print(f"passed {name}", flush=True)


def claim_async(name: str, work: Callable[[], Awaitable[object]], seconds: float = 60) -> None:
    """The same for a coroutine function; it has this time."""

    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await work()

    claim(name, lambda: asyncio.run(bounded()))


def same(found: object, expected: object) -> None:
    """Raises AssertionError with both if they differ."""
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")
