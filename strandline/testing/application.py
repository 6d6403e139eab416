"""A program of the user as a process of the cluster: it can be killed at any of its steps."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from strandline.host import Host, ServiceHost
from strandline.simulation.engine.hosts import Machine, SimulatedProcess
from strandline.simulation.engine.world import World
from strandline.streams.storage.memory_stores import MemoryDisk
from strandline.testing.errors import NotPossible

Main = Callable[[Host], Coroutine[Any, Any, object]]
"""The main function of an application: it gives the host to its clients."""


class Application:
    """Runs the main function on a machine of its own; `PlayedCluster.application` makes it.

    The main function runs on the cluster's loop: it may use anything of asyncio that stays within the
    process. Sockets, subprocesses and signals raise NotPlayed, a NotImplementedError, and `to_thread` runs
    its function in this thread, which blocks the cluster. Share plain data with the test, such as lists.
    """

    def __init__(self, name: str, main: Main, world: World) -> None:
        self.name = name
        self.stores = MemoryDisk()
        """The state stores of its stream tasks: `open_stores=application.stores.open`."""
        self._main = main
        self._world = world
        self._machine = world.new_machine()
        self._process = self._begin()
        self._observed: BaseException | None = None
        """The error that the test has seen."""

    def __repr__(self) -> str:
        return f"<application {self.name}: {self.state}>"

    @property
    def state(self) -> str:
        """`runs`, `paused`, `no power`, `ended`, or `failed: …`."""
        if self._process.life.alive:
            return "paused" if self._process.life.paused else "runs"
        if not self._world.network.has_power(self._machine.host):
            return "no power"
        return "ended" if self.error is None else f"failed: {self.error!r}"

    @property
    def runs(self) -> bool:
        """It has neither ended nor been killed. A paused one runs."""
        return self._process.life.alive

    @property
    def error(self) -> BaseException | None:
        """What the main function raised."""
        return self._process.defect

    @property
    def unseen_error(self) -> BaseException | None:
        """The error, unless `raise_error` has raised it."""
        return None if self.error is self._observed else self.error

    @property
    def machine(self) -> Machine:
        return self._machine

    @property
    def process(self) -> SimulatedProcess:
        """The present life."""
        return self._process

    def raise_error(self) -> None:
        """Raise the error with which the application ended, if it did."""
        self._observed = self.error
        if self.error is not None:
            raise self.error

    def kill(self) -> None:
        """As kill -9: not even a `finally` of it runs. Raises NotPossible unless it runs."""
        self._need_running("kill")
        self._process.kill()

    def cancel(self) -> None:
        """Cancel the main function: clients are closed, and leave their groups.

        One that has just been started begins, and is cancelled where it first waits.
        """
        self._need_running("cancel")
        self._process.cancel()

    def pause(self) -> None:
        """As SIGSTOP, until `resume`."""
        self._need_running("pause")
        self._process.pause()

    def resume(self) -> None:
        self._need_running("resume")
        self._process.resume()

    def start(self) -> None:
        """Run the main function again, from its beginning. Raises NotPossible while it runs."""
        if self._process.life.alive:
            raise NotPossible(f"application {self.name} runs already")
        if not self._world.network.has_power(self._machine.host):
            raise NotPossible(f"application {self.name} cannot start: its machine has no power")
        self.stores.process_ended()
        self._process = self._begin()

    def _begin(self) -> SimulatedProcess:
        process = self._world.new_process(self.name, self._machine, self._keep_error)

        async def run(host: ServiceHost) -> None:
            await self._main(host)

        process.start(run)
        return process

    def _keep_error(self, line: str) -> None:
        """The process keeps its error: see `error`."""

    def _need_running(self, what: str) -> None:
        if not self._process.life.alive:
            raise NotPossible(f"cannot {what} application {self.name}: {self.state}; `start` runs it again")
