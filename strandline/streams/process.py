"""Runs a member as a process: until a signal asks it to leave."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable
from contextlib import suppress

from strandline.adapters.system.descriptors import take_all
from strandline.streams.streams import Streams


async def run(app: Streams) -> None:
    """Start the application. SIGTERM or SIGINT hands all tasks over and leaves; a second signal leaves at
    once.

    A signal before the start has completed cancels the start. Returns once the member has left. Raises the
    error that made it fail. Must be called from the main thread.
    """
    take_all()  # each store holds about ten file descriptors
    loop = asyncio.get_running_loop()
    leave_requested = asyncio.Event()
    stop_requested = asyncio.Event()

    def on_signal() -> None:
        (stop_requested if leave_requested.is_set() else leave_requested).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        if not await _started(app, leave_requested):
            return
        async with asyncio.TaskGroup() as tasks:
            ended = tasks.create_task(_ended(app))
            signalled = tasks.create_task(leave_requested.wait())
            await asyncio.wait((ended, signalled), return_when=asyncio.FIRST_COMPLETED)
            signalled.cancel()
            if not ended.done():
                leaving = tasks.create_task(app.leave())
                now = tasks.create_task(stop_requested.wait())
                await asyncio.wait((leaving, now), return_when=asyncio.FIRST_COMPLETED)
                now.cancel()
                if not leaving.done():
                    await app.stop()  # this ends `leave` too
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        await app.stop()
    await app.wait()


async def _started(app: Streams, leave_requested: asyncio.Event) -> bool:
    """False if a signal came before the start completed. Raises an error of the start."""
    async with asyncio.TaskGroup() as tasks:
        starting = tasks.create_task(_failure(app.start()))
        signalled = tasks.create_task(leave_requested.wait())
        await asyncio.wait((starting, signalled), return_when=asyncio.FIRST_COMPLETED)
        signalled.cancel()
        starting.cancel()  # stops the start; has no effect if it is done
    if starting.cancelled():
        return False
    if (failure := starting.result()) is not None:
        raise failure
    return True


async def _failure(starting: Awaitable[None]) -> Exception | None:
    """Returns the error, which would leave a TaskGroup wrapped."""
    try:
        await starting
    except Exception as error:
        return error
    return None


async def _ended(app: Streams) -> None:
    """Return once the application has ended, for any reason."""
    with suppress(Exception):
        await app.wait()
