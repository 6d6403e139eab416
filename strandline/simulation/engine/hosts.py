"""The simulated processes and their machines: how they start, what they get, and how they end.

A process gets a `strandline.host.ServiceHost`, as a real one does. It may be killed, stopped by a signal,
paused, or lose the power of its machine, at any moment between two of its steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, NoReturn, ParamSpec, TypeVar

from strandline.adapters.system.fail_fast import defect_in
from strandline.config.services.listener import ListenerSettings
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import StrandlineError
from strandline.host import ProbeResult, ServiceHost, ShownKey
from strandline.simulation.engine.byte_streams import ByteStream, SimulatedByteServer, connect_bytes
from strandline.simulation.engine.clocks import MachineClock, SimulatedClock
from strandline.simulation.engine.disks import Disk
from strandline.simulation.engine.loop import WORLD, Killed, Process, SimulatedLoop
from strandline.simulation.engine.network import End, Network
from strandline.simulation.engine.rpc.listener import SimulatedListener
from strandline.simulation.engine.rpc.transport import SimulatedTransport
from strandline.simulation.engine.zookeeper.session import SimulatedSession, connect_session
from strandline.vocabulary.metadata import Endpoint

P = ParamSpec("P")
T = TypeVar("T")

Service = Callable[[ServiceHost], Coroutine[Any, Any, None]]
"""The main function of a process."""


class Machine:
    """What outlives a process: the address, the clock, and the disk."""

    def __init__(self, host: str, clock: MachineClock, disk: Disk, operations_merged_max: int) -> None:
        """`operations_merged_max`: how many operations of several callers a process here sends to ZooKeeper
        as one `multi`."""
        self.host = host
        self.operations_merged_max = operations_merged_max
        self.clock = clock
        self.disk = disk
        self.processes: list[SimulatedProcess] = []
        """Those that run."""


class SimulatedProcess:
    """One process, from its start to its end."""

    def __init__(
        self,
        name: str,
        machine: Machine,
        loop: SimulatedLoop,
        network: Network,
        random: Random,
        on_defect: Callable[[str], None],
    ) -> None:
        """`on_defect` gets a line for each defect that ends the process."""
        self.name = name
        self._on_defect = on_defect
        self.machine = machine
        self.defect: BaseException | None = None
        """What made the process end itself, or the error that its main function raised."""
        self.ended = loop.create_future()
        """Done once the process has ended."""
        self._loop = loop
        self._network = network
        self._random = random
        self._service: asyncio.Task[None] | None = None
        self.life = Process(name, machine.host, machine.clock)
        self.stop_requested = asyncio.Event()
        self.stopping = False
        """It was asked to stop, though it may be paused and not know it yet."""
        self.host = self._new_host()
        machine.processes.append(self)

    def _new_host(self) -> ServiceHost:
        network, life, random = self._network, self.life, self._random
        merged_max = self.machine.operations_merged_max

        def listen(
            settings: ListenerSettings,
            services: Sequence[str],
            *,
            on_answered: Callable[[str, float], None],
            on_refused: Callable[[StrandlineError, str], None],
        ) -> SimulatedListener:
            return SimulatedListener(network, life, settings, on_answered, on_refused)

        def connect(
            settings: ZooKeeperSettings, on_waiting: Callable[[float], None]
        ) -> Coroutine[Any, Any, SimulatedSession]:
            return connect_session(network, life, random, settings, on_waiting, merged_max)

        def listen_bytes(setting: str, host: str, port: int) -> SimulatedByteServer:
            return SimulatedByteServer(network, life, setting, port)

        def transport(key: ShownKey | None) -> SimulatedTransport:
            return SimulatedTransport(network, life, key)

        return ServiceHost(
            clock=SimulatedClock(self.machine.clock, self._loop.now_ns),
            files=self.machine.disk.files,
            threads=_Threads(self._loop),
            new_id=lambda: f"{random.getrandbits(128):032x}",
            random=random,
            transport=transport,
            listen=listen,
            connect_coordination=connect,
            probe=self._probe,
            stop_requested=self.stop_requested,
            fail_fast=lambda withdraw: _FailFast(self, withdraw),
            die=self.die,
            listen_bytes=listen_bytes,
        )

    async def connect_bytes(self, address: str, protocol: asyncio.BufferedProtocol) -> ByteStream:
        """A connection of this process to a port of `listen_bytes`: see `byte_streams.connect_bytes`."""
        return await connect_bytes(self._network, self.life, address, protocol)

    async def _probe(self, endpoint: Endpoint, timeout_s: float) -> ProbeResult:
        result: asyncio.Future[ProbeResult] = self._loop.create_future()

        def settle(what: ProbeResult) -> None:
            if not result.done():
                result.set_result(what)

        def connected(end: End) -> None:
            end.close("it was a probe")
            settle(ProbeResult.ALIVE)

        give_up = self._network.connect(
            self.life, endpoint.address, connected, lambda: settle(ProbeResult.GONE)
        )
        try:
            async with asyncio.timeout(timeout_s):
                return await result
        except TimeoutError:
            return ProbeResult.NOTHING
        finally:
            give_up()

    # --- start and end -----------------------------------------------------------------------

    def start(self, service: Service) -> None:
        """Run the service. The process ends when it returns or raises."""
        self._service = self._loop.start(self.life, service(self.host))
        self._service.add_done_callback(self._returned, context=WORLD)

    def cancel(self) -> None:
        """Cancel the service, where it waits or first will."""
        assert self._service is not None
        self._loop.call_soon(self._service.cancel, context=self.life.context)

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine within the process, beside its service."""
        return self._loop.start(self.life, work)

    def _returned(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if self.life.alive:
            self._end_with(error, "exited" if error is None else "its main function raised")

    def kill(self) -> None:
        """As kill -9: nothing of the process runs from here on."""
        if self.life.alive:
            self._end("killed")

    def die(self) -> NoReturn:
        """`kill`, by the process itself."""
        self.kill()
        raise Killed

    def fail(self, error: BaseException, where: str) -> NoReturn:
        """The process has met a defect."""
        if self.life.alive:
            self._end_with(error, where)
        raise Killed

    def _end_with(self, error: BaseException | None, where: str) -> None:
        self.defect = error
        if error is not None and defect_in(error) is not None:
            self._on_defect(f"{self.name}: {where}: {error!r}")
        self._end(f"{where}: {type(error).__name__}")

    def _end(self, how: str) -> None:
        self._note(how)
        self._loop.kill(self.life)
        self._network.killed(self.life)
        self._forget()
        self.machine.disk.process_ended()

    def _forget(self) -> None:
        self.machine.processes.remove(self)
        if not self.ended.done():
            self.ended.set_result(None)

    def power_lost(self) -> None:
        """The machine has lost its power: see `World.lose_power`."""
        self._note("lost its power")
        self._loop.kill(self.life)
        self._forget()

    # --- signals -----------------------------------------------------------------------------

    def sigterm(self) -> None:
        """Ask the process to stop in good order."""
        self._note("is asked to stop")
        self.stopping = True
        self._loop.call_soon(self.stop_requested.set, context=self.life.context)

    def pause(self) -> None:
        """As SIGSTOP, until `resume`."""
        if self.life.alive and not self.life.paused:
            self._note("is paused")
            self._loop.pause(self.life)
            self._network.paused(self.life)

    def resume(self) -> None:
        if self.life.alive and self.life.paused:
            self._note("is resumed")
            self._loop.resume(self.life)
            self._network.resumed(self.life)

    def _note(self, what: str) -> None:
        self._network.trace.note(f"{self.name} {what}")


class _Threads:
    """Runs what would block a little later, on the loop."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._loop.run_in_executor(None, lambda: function(*args, **kwargs))


class _FailFast:
    """Ends a process at its first defect, and keeps the defect for the test."""

    def __init__(self, process: SimulatedProcess, withdraw: Callable[[], None]) -> None:
        self._process = process
        self._withdraw = withdraw

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.set_exception_handler(self._handle)

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        defect = None if error is None else defect_in(error)
        if defect is not None:
            self.end(defect, str(context.get("message")))
        loop.default_exception_handler(context)

    def end(self, error: BaseException, where: str) -> NoReturn:
        self._withdraw()
        self._process.fail(error, where)
