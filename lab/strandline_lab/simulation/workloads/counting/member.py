"""One life of a member of a stream application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.streams.streams import Streams
from strandline_lab.simulation.workloads.producing import started


class Member:
    """Its stores outlive it. `application` makes a member that has not started yet."""

    def __init__(self, process: SimulatedProcess, application: Callable[[], Streams]) -> None:
        self.process = process
        self.leave = asyncio.Event()
        self._application = application
        self._app: Streams | None = None

    @property
    def runs(self) -> list[str]:
        """The tasks that it runs now."""
        return [str(each.task) for each in self._app.tasks() if each.role == "running"] if self._app else []

    async def run(self) -> None:
        """Raises StrandlineError if it cannot go on."""
        async with started(self._new, self.process.host) as app:
            async with asyncio.TaskGroup() as tasks:
                leaving = tasks.create_task(self._leave(app))
                with suppress(Exception):
                    await app.wait()
                leaving.cancel()
            await app.wait()

    def _new(self) -> Streams:
        self._app = self._application()
        return self._app

    async def _leave(self, app: Streams) -> None:
        await self.leave.wait()
        _ = await app.leave()
