"""Runs a member as a program does: until it is told to leave."""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Awaitable
from contextlib import suppress

from strandline.streams.streams import Streams


async def run(app: Streams) -> None:
    """Start, and on SIGTERM or SIGINT hand everything over and leave; a second one leaves at once.

    Who is told so before it has started does not start. Returns when it is out. Raises what made it fail. To
    be called from the main thread.
    """
    _allow_open_files()
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    hurried = asyncio.Event()

    def on_signal() -> None:
        (hurried if asked.is_set() else asked).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        if not await _started(app, asked):
            return
        async with asyncio.TaskGroup() as tasks:
            ended = tasks.create_task(_ended(app))
            told = tasks.create_task(asked.wait())
            await asyncio.wait((ended, told), return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
            if not ended.done():
                leaving = tasks.create_task(app.leave())
                now = tasks.create_task(hurried.wait())
                await asyncio.wait((leaving, now), return_when=asyncio.FIRST_COMPLETED)
                now.cancel()
                if not leaving.done():
                    await app.stop()  # which ends the leaving too
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        await app.stop()
    await app.wait()


async def _started(app: Streams, asked: asyncio.Event) -> bool:
    """False if it was asked to leave before. Raises what keeps it from starting."""
    async with asyncio.TaskGroup() as tasks:
        starting = tasks.create_task(_failure(app.start()))
        told = tasks.create_task(asked.wait())
        await asyncio.wait((starting, told), return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        starting.cancel()  # which stops it; one that is done does not mind
    if starting.cancelled():
        return False
    if (failure := starting.result()) is not None:
        raise failure
    return True


async def _failure(starting: Awaitable[None]) -> Exception | None:
    """Out of a group of tasks it would come wrapped."""
    try:
        await starting
    except Exception as error:
        return error
    return None


def _allow_open_files() -> None:
    """Each store holds some ten descriptors: take as many as the system grants."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _ended(app: Streams) -> None:
    """Return once it has, whatever made it."""
    with suppress(Exception):
        await app.wait()
