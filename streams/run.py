"""Runs a member as a program does: until it is told to leave."""

from __future__ import annotations

import asyncio
import resource
import signal
from contextlib import suppress

from streams.streams import Streams


async def run(app: Streams) -> None:
    """Start, and on SIGTERM or SIGINT hand everything over and leave; a second one leaves at once.

    Returns when it is out. Raises what made it fail. To be called from the main thread.
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
        await app.start()
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


def _allow_open_files() -> None:
    """Each store holds some ten descriptors: take as many as the system grants."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _ended(app: Streams) -> None:
    """Return once it has, whatever made it."""
    with suppress(Exception):
        await app.wait()
