"""How a test waits, for a condition, with a deadline; and how it looks on meanwhile."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, overload

DEADLINE_S = 30.0
"""Of what takes a moment on an idle machine: a busy one may take long, and only a hang reaches this."""
POLL_S = 0.005
POLL_S_MAX = 0.025
POLL_SHARE = 0.05
"""A look comes after this share of the time that was waited already: a long wait costs few looks."""
LOOK_TIMES = 4
COSTLY_POLL_S_MAX = 0.2
"""After a look that took long, as one with a client of its own does, this many times as long comes none: else
looks would take most of the machine from what is waited for."""

T = TypeVar("T")


@overload
async def eventually(
    predicate: Callable[[], Awaitable[T]], *, deadline_s: float = DEADLINE_S, what: str = ""
) -> T: ...


@overload
async def eventually(predicate: Callable[[], T], *, deadline_s: float = DEADLINE_S, what: str = "") -> T: ...


async def eventually(predicate: Callable[[], Any], *, deadline_s: float = DEADLINE_S, what: str = "") -> Any:
    """The first true value of `predicate`, a function or a coroutine function.

    Raises AssertionError with its last value at the deadline.
    """
    last: Any = None
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout(deadline_s):
            while True:
                looked = loop.time()
                value = predicate()
                last = await value if inspect.isawaitable(value) else value
                if last:
                    return last
                await asyncio.sleep(_pause_s(waited_s=loop.time() - began, look_s=loop.time() - looked))
    except TimeoutError:
        name = what or getattr(predicate, "__name__", repr(predicate))
        raise AssertionError(f"{name} was still {last!r} after {deadline_s} s") from None


def _pause_s(*, waited_s: float, look_s: float) -> float:
    pause_s = min(max(POLL_S, waited_s * POLL_SHARE), POLL_S_MAX)
    return max(pause_s, min(look_s * LOOK_TIMES, COSTLY_POLL_S_MAX))


@asynccontextmanager
async def looking(look: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Look again and again until the end of the block."""

    async def on() -> None:
        while True:
            await look()
            await asyncio.sleep(POLL_S)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(on())
        try:
            yield
        finally:
            task.cancel()
