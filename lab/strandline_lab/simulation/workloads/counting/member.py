"""One life of a member of a stream application."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.streams.streams import Streams


class Member:
    """Its stores outlive it."""

    def __init__(self, process: SimulatedProcess, app: Streams) -> None:
        self.process = process
        self.leave = asyncio.Event()
        self._app = app

    @property
    def runs(self) -> list[str]:
        """The tasks that it runs now."""
        return [str(each.task) for each in self._app.tasks() if each.role == "running"]

    async def run(self) -> None:
        """Raises StrandlineError if it cannot go on."""
        async with self._app as app:
            async with asyncio.TaskGroup() as tasks:
                leaving = tasks.create_task(self._leave())
                with suppress(Exception):
                    await app.wait()
                leaving.cancel()
            await app.wait()

    async def _leave(self) -> None:
        await self.leave.wait()
        _ = await self._app.leave()
