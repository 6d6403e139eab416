"""The port of a process for streams of frames: for calls that the members of its cluster make to each other.

A connection is one call. It has to open it within the time for a handshake, and is closed with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Final

import structlog

from strandline.adapters.framed.connection import FramedConnection
from strandline.adapters.framed.frames import FRAMES, Kind
from strandline.adapters.framed.opening import OPENING_BYTES_MAX, load_opening
from strandline.adapters.rpc.refused_requests import TooManyConnections
from strandline.adapters.rpc.request_parsing import MalformedRequest
from strandline.adapters.rpc.server.held_calls import HeldCalls
from strandline.adapters.rpc.serving import OnRefused, check_rows, serve_stream
from strandline.adapters.rpc.wire_errors import error_to_bytes
from strandline.adapters.system.accepting.byte_server import caller_at
from strandline.adapters.system.accepting.connection_count import ConnectionCount
from strandline.adapters.tls.subject import CertificatePrincipals, shown_certificate
from strandline.config.limits import MESSAGE_BYTES_MAX
from strandline.config.security import ENCRYPTED
from strandline.config.services.broker import BrokerSettings
from strandline.errors import InvalidRequest, StrandlineError
from strandline.host import Arrival, BytesServer, CallerLogins, ServiceHost
from strandline.ports import Caller, Served, ServedStream
from strandline.vocabulary.metadata import Endpoint

logger = structlog.get_logger(__name__)

SETTING: Final = "replication_port"


class FramedPort:
    """Without `replication_port` it does nothing."""

    def __init__(
        self,
        settings: BrokerSettings,
        host: ServiceHost,
        on_refused: OnRefused,
        stranger: Callable[[Caller], StrandlineError | None],
    ) -> None:
        """`stranger`: why a caller is no member of the cluster; None if it is one."""
        self._settings = settings
        self._host = host
        self._on_refused = on_refused
        self._stranger = stranger
        self._principals = CertificatePrincipals(settings.ssl_principal_mapping_rules)
        self._held = HeldCalls(settings.client_calls_max)
        self._server: BytesServer | None = None
        self._connections: dict[FramedConnection, None] = {}
        self._arrived = ConnectionCount()
        """Connections that are not encrypted yet."""
        self._is_encrypted = settings.protocol_of(SETTING) in ENCRYPTED
        self._connections_max = settings.calls_max
        self._calls: Mapping[str, ServedStream[Any, Any]] = {}
        self._logins: CallerLogins | None = None
        self._tasks: asyncio.TaskGroup | None = None

    def bind(self, endpoint: Endpoint) -> Endpoint:
        """Listens. Returns the endpoint with the address at which others reach this port, which has the host
        and the certificate of the first one. Raises SettingsError."""
        settings, port = self._settings, self._settings.replication_port
        mapped = settings.replication_advertised_port
        if port is None or (port == 0 and settings.advertised_port is not None and mapped is None):
            return endpoint
        self._server = self._host.bind_bytes(settings, SETTING, port)
        self._connections_max = min(self._connections_max, self._server.connections_max)
        return replace(endpoint, replication=(endpoint.host, mapped or self._server.port))

    def offer(self, served: Sequence[Served], logins: CallerLogins) -> None:
        """Sets the streams that `run` serves."""
        check_rows(served)
        self._calls = {each.rpc.path: each for each in served if isinstance(each, ServedStream)}
        self._logins = logins if self._settings.has_logins(SETTING) else None

    async def run(self) -> None:
        """Serves until it is cancelled. Raises an error that no handler expects."""
        if self._server is None:
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                try:
                    await self._server.serve(self._connection, tasks, self._on_arrival)
                    await asyncio.Event().wait()
                finally:
                    self._tasks = None  # a group that ends takes no more tasks
        finally:
            self.stop()

    def stop(self) -> None:
        """Takes no more connections, and closes those that there are. It may come before `run`."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.abort()

    def _connection(self) -> FramedConnection:
        return FramedConnection(OPENING_BYTES_MAX, self._opened)

    def _on_arrival(self, address: str) -> Arrival | None:
        """Counts a connection until it is encrypted, if there is room for it beside those that are served. In
        plaintext it is served at once, and then it learns why it is refused."""
        if self._tasks is None:
            return None
        if not self._is_encrypted:
            return Arrival(nullcontext())
        arrived, address_max = self._arrived, self._settings.client_calls_max
        if self._is_full(len(self._connections) + arrived.total, address):
            return None
        if self._held.of(address) + arrived.of(address) >= address_max:
            why = f"{address} has {address_max} connections (setting client_calls_max)"
            self._on_refused(TooManyConnections(why, port=SETTING, limit=address_max), address)
            return None
        return Arrival(arrived.one(address))

    def _is_full(self, count: int, peer: str) -> bool:
        """Whether there may be no more than these connections. Tells of the refusal."""
        count_max = self._connections_max
        if count < count_max:
            return False
        why = f"{SETTING} has {count_max} connections (setting calls_max, or too few descriptors)"
        self._on_refused(TooManyConnections(why, port=SETTING, limit=count_max), peer)
        return True

    def _opened(self, connection: FramedConnection) -> None:
        peer = caller_at(connection.transport, "framed").connection
        if self._tasks is None or self._is_full(len(self._connections), peer):
            connection.abort()
            return
        self._connections[connection] = None
        serving = self._tasks.create_task(self._serve(connection))
        connection.closed.add_done_callback(lambda _: self._lost(connection, peer, serving))
        serving.add_done_callback(lambda _: self._served(connection, serving))

    def _lost(self, connection: FramedConnection, peer: str, serving: asyncio.Task[None]) -> None:
        if connection.failure is not None:
            self._on_refused(connection.failure, peer)
        serving.cancel()

    def _served(self, connection: FramedConnection, serving: asyncio.Task[None]) -> None:
        self._connections.pop(connection, None)
        if serving.cancelled():
            connection.abort()

    async def _serve(self, connection: FramedConnection) -> None:
        """Serves one connection to its end. It is cancelled when the peer hangs up or the port ends."""
        caller = caller_at(connection.transport, "framed")
        try:
            with self._held.one(caller.host):
                await self._call(connection, caller)
        except StrandlineError as error:
            if error is not connection.failure:
                self._on_refused(error, caller.connection)
            await connection.send(Kind.ERROR, error_to_bytes(error, caller.listener))
        else:
            await connection.send(Kind.END)
        connection.close()

    async def _call(self, connection: FramedConnection, caller: Caller) -> None:
        """Raises what the call is refused with."""
        try:
            async with asyncio.timeout(self._settings.handshake_timeout_ms / 1000):
                frame = await connection.take()
        except TimeoutError:
            raise InvalidRequest("the connection opened no stream in time") from None
        if frame is None or frame[0] is not Kind.OPENING:
            raise connection.failure or MalformedRequest("the first frame opens a stream", kind=FRAMES)
        opening = load_opening(frame[1])
        own = self._settings.broker_id
        if opening.member is not None and opening.member != own:
            raise InvalidRequest(f"broker {opening.member} was meant, this is broker {own}")
        call = self._calls.get(opening.path)
        if call is None:
            raise InvalidRequest(f"{opening.path[:100]!r} is no stream of this port")
        caller = self._named(connection, replace(caller, member_key=opening.member_key))
        if (error := self._stranger(caller)) is not None:
            raise error
        connection.frames.allow(MESSAGE_BYTES_MAX)
        await connection.send(Kind.ACCEPTED)

        async def write(data: bytes) -> None:
            await connection.send(Kind.MESSAGE, data)
            if connection.closed.done():
                await asyncio.Event().wait()  # this task is being cancelled

        await serve_stream(call, _Messages(connection), write, caller, self._host.clock.monotonic)

    def _named(self, connection: FramedConnection, caller: Caller) -> Caller:
        """The caller with its name. Raises AuthenticationFailed, and as `CallerLogins.admit`."""
        if self._logins is not None:
            return self._logins.admit(caller, None)
        certificate = shown_certificate(connection.transport)
        return caller if certificate is None else self._principals.named(caller, certificate)


class _Messages(AsyncIterator[bytes]):
    """The messages of a stream, until its client ends it. Raises InvalidRequest."""

    def __init__(self, connection: FramedConnection) -> None:
        self._connection = connection

    async def __anext__(self) -> bytes:
        frame = await self._connection.take()
        if frame is None or frame[0] is Kind.END:
            if self._connection.failure is not None:
                raise self._connection.failure
            raise StopAsyncIteration
        if frame[0] is not Kind.MESSAGE:
            text = f"a frame of kind {frame[0].name.lower()} within a stream"
            raise MalformedRequest(text, kind=FRAMES)
        return frame[1]
