"""The server's end of calls between simulated processes: the port `ServiceListener`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, Final

from strandline.adapters.rpc.serving import (
    OnAnswered,
    OnRefused,
    check_rows,
    refusal,
    serve_call,
    serve_stream,
)
from strandline.adapters.rpc.wire_errors import error_to_bytes
from strandline.config.services.listener import ListenerSettings
from strandline.errors import SettingsError, StrandlineError
from strandline.host import CallerLogins
from strandline.ports import Caller, Listener, Served, ServedCall
from strandline.simulation.engine.loop import Process
from strandline.simulation.engine.network import End, Network
from strandline.simulation.engine.rpc.transport import Opened
from strandline.vocabulary.metadata import Endpoint

NOT_SERVED: Final = "UNIMPLEMENTED"
STOPPING: Final = "the server is stopping"


class SimulatedListener:
    """All ports of one process. It fulfils `strandline.host.ServiceListener`."""

    def __init__(
        self,
        network: Network,
        process: Process,
        settings: ListenerSettings,
        on_answered: OnAnswered,
        on_refused: OnRefused,
    ) -> None:
        self.process = process
        self.on_answered = on_answered
        self.on_refused = on_refused
        self.serving = False
        """The health that the process publishes."""
        self.context = process.context
        """In copies of it the handlers run: that of the task which called `start`, as with gRPC."""
        self._network = network
        self._settings = settings
        self._ports: dict[Listener, _Port] = {}

    def bind(self, member: int, rack: str = "") -> Endpoint:
        settings = self._settings
        port = self._listen(Listener.INTERNAL, "port", settings.port)
        advertised = settings.advertised_host or self.process.host
        endpoint = Endpoint(member, advertised, settings.advertised_port or port, rack)
        if settings.external_port is None:
            return endpoint
        port = self._listen(Listener.EXTERNAL, "external_port", settings.external_port)
        return replace(endpoint, external=(settings.external_host, port))

    def _listen(self, listener: Listener, setting: str, number: int) -> int:
        port = _Port(self, listener)
        try:
            port.number = self._network.listen(self.process.host, number, port)
        except OSError as error:
            raise SettingsError(f"setting {setting} = {number}: {error}") from error
        self._ports[listener] = port
        return port.number

    async def start(
        self,
        served: Sequence[Served],
        *,
        internal: Sequence[Served] = (),
        logins: CallerLogins | None = None,
    ) -> None:
        """Simulated callers have their names without logins."""
        check_rows([*served, *internal])
        self.context = copy_context()
        for listener, port in self._ports.items():
            calls = [*served, *internal] if listener is Listener.INTERNAL else served
            port.served = {each.rpc.path: each for each in calls}

    async def set_health(self, *, serving: bool) -> None:
        self.serving = serving

    async def stop(self, grace_s: float | None = None) -> None:
        tasks: list[asyncio.Task[None]] = []
        for port in self._ports.values():
            self._network.stop_listening(self.process.host, port.number)
            tasks += port.stop()
        if tasks and grace_s:
            await asyncio.wait(tasks, timeout=grace_s)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for port in self._ports.values():
            port.close()


class _Port:
    """One port: what is served there, and its connections. Fulfils `network.Acceptor`."""

    def __init__(self, listener: SimulatedListener, kind: Listener) -> None:
        self.listener = listener
        self.kind = kind
        self.number = 0
        self.served: dict[str, Served] = {}
        self.stopping = False
        self._connections: dict[int, _Connection] = {}

    @property
    def process(self) -> Process:
        return self.listener.process

    def accept(self, end: End) -> _Connection:
        connection = _Connection(self, end)
        self._connections[end.connection.number] = connection
        return connection

    def left(self, end: End) -> None:
        self._connections.pop(end.connection.number, None)

    def stop(self) -> list[asyncio.Task[None]]:
        """Take no more calls; those that are under way."""
        self.stopping = True
        return [task for connection in self._connections.values() for task in connection.tasks.values()]

    def close(self) -> None:
        for connection in list(self._connections.values()):
            connection.end.close("the server has stopped")


class _Connection:
    """The calls of one client's connection. Fulfils `network.Server`."""

    def __init__(self, port: _Port, end: End) -> None:
        self.end = end
        self.tasks: dict[int, asyncio.Task[None]] = {}
        """Of the calls under way, by stream."""
        self._port = port
        self._name = f"ipv4:{end.peer.host}:{40_000 + end.connection.number}"

    def begin(self, call: Opened) -> None:
        served = self._port.served.get(call.path)
        if served is None or self._port.stopping:
            self.end.send(call.stream, call.ending.broken, NOT_SERVED if served is None else STOPPING)
            return
        caller = Caller(
            self._name,
            self.end.peer.host,
            self._port.kind,
            call.key,
            call.principal,
            asks_for=call.asks_for,
        )
        work = _Call(self, call, caller).serve(served)
        loop, context = asyncio.get_running_loop(), self.listener.context.copy()
        task = self.tasks[call.stream] = loop.create_task(work, name=call.path, context=context)
        task.add_done_callback(partial(self._finished, call))

    def _finished(self, call: Opened, task: asyncio.Task[None]) -> None:
        self.tasks.pop(call.stream, None)
        failed = "CANCELLED" if task.cancelled() else task.exception()
        if failed is not None:
            self.end.send(call.stream, call.ending.broken, f"the handler ended: {failed!r}")

    def cancel(self, stream: int) -> None:
        if stream in self.tasks:
            self.tasks[stream].cancel()

    def broken(self, reason: str) -> None:
        self._port.left(self.end)
        for task in self.tasks.values():
            task.cancel()

    @property
    def listener(self) -> SimulatedListener:
        return self._port.listener


class _Call:
    """One call, as its handler's task."""

    def __init__(self, connection: _Connection, call: Opened, caller: Caller) -> None:
        self._connection = connection
        self._listener = connection.listener
        self._call = call
        self._caller = caller

    async def serve(self, served: Served) -> None:
        try:
            if isinstance(served, ServedCall):
                answered = await self._one(served)
            else:
                write, monotonic = self._call.down.write, asyncio.get_running_loop().time
                await serve_stream(served, self._requests(), write, self._caller, monotonic)
                answered = None
        except StrandlineError as error:
            await self._refuse(served, error)
            return
        if answered is None:
            self._send(self._call.ending.ended, None)
        else:
            self._answer(answered)

    async def _one(self, served: ServedCall[Any, Any]) -> bytes:
        data = self._call.request
        assert data is not None, f"{self._call.path} takes one request"
        monotonic = asyncio.get_running_loop().time
        return await serve_call(served, data, self._caller, monotonic, self._listener.on_answered)

    async def _requests(self) -> AsyncIterator[bytes]:
        while (data := await self._call.up.read()) is not None:
            yield data

    async def _refuse(self, served: Served, error: StrandlineError) -> None:
        self._listener.on_refused(error, self._caller.connection)
        carries = refusal(served.rpc, error, self._caller.listener)
        if carries is None:
            self._send(self._call.ending.ended, error_to_bytes(error, self._caller.listener))
        elif isinstance(served, ServedCall):
            self._answer(carries)
        else:
            await self._call.down.write(carries)
            self._send(self._call.ending.ended, None)

    def _answer(self, data: bytes) -> None:
        self._connection.end.connection.network.trace.note(f"answer {self._call.path}", data)
        self._send(self._call.ending.answered, data)

    def _send(self, deliver: Callable[..., None], *args: Any) -> None:
        self._connection.end.send(self._call.stream, deliver, *args)
