"""The HTTP server: uvicorn, within the bounds of the settings."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from strandline.config.console import ConsoleSettings
from strandline.config.limits import KIB
from strandline.console.web.access import HEAD_BYTES_MAX
from strandline.errors import SettingsError
from strandline.room import one_host

GRACE_S: Final = 1
"""How long requests in progress have to end when the console stops."""
BACKLOG: Final = 256
HANDSHAKE_S: Final = 5.0
"""How long a handshake of TLS may take."""
PIECE_BYTES: Final = 16 * KIB
"""What is parsed at once: h11 compares a head with its bound only while the head is incomplete."""


class _Limit:
    """Ends something unless it is done in time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, end: Callable[[], None]) -> None:
        """The time counts from the first of several calls."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, end)

    def done(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Connection(H11Protocol):
    """One connection. It is closed if a request takes too long to arrive, or its answer to be read, and at
    once if its address has too many."""

    def __init__(self, settings: ConsoleSettings, of_address: Counter[str], **given: Any) -> None:
        super().__init__(**given)
        self._of_one_max = settings.client_connections_max
        self._of_address = of_address
        self._counted = ""
        self._arriving = _Limit(settings.request_ms_max / 1000)
        self._leaving = _Limit(settings.request_ms_max / 1000)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._counted = "" if self.client is None else one_host(self.client[0])
        self._of_address[self._counted] += 1
        if self._of_address[self._counted] > self._of_one_max:
            transport.abort()
            return
        self._watch_arrival()

    def connection_lost(self, exc: Exception | None) -> None:
        self._of_address[self._counted] -= 1
        if not self._of_address[self._counted]:
            del self._of_address[self._counted]
        self._arriving.done()
        self._leaving.done()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        for first in range(0, len(data), PIECE_BYTES):
            if self.transport.is_closing():  # the rest of a request that was refused
                return
            super().data_received(data[first : first + PIECE_BYTES])
        self._watch_arrival()

    def _watch_arrival(self) -> None:
        """A request has its time from the first byte to the last."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._arriving.done()
        elif not self.transport.is_closing():
            self._arriving.begin(self.transport.abort)

    def on_response_complete(self) -> None:
        self._arriving.done()  # between two requests `idle_ms_max` counts
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._leaving.begin(self.transport.abort)

    def resume_writing(self) -> None:
        self._leaving.done()
        super().resume_writing()


class _Server(uvicorn.Server):
    """Leaves signals to the process, which stops more than this server."""

    def __init__(self, config: uvicorn.Config, settings: ConsoleSettings, tls: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self._settings = settings
        self._tls = tls
        self._of_address: Counter[str] = Counter()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens as uvicorn does, with a bound for handshakes."""
        assert sockets is not None

        def connection() -> _Connection:
            return _Connection(
                self._settings,
                self._of_address,
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )

        loop = asyncio.get_running_loop()
        handshake_s = HANDSHAKE_S if self._tls is not None else None
        self.servers = [
            await loop.create_server(connection, sock=each, ssl=self._tls, ssl_handshake_timeout=handshake_s)
            for each in sockets
        ]
        self.started = True


def bind(settings: ConsoleSettings) -> socket.socket:
    """The socket on which browsers will connect. Raises SettingsError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise SettingsError(
            f"setting listen = {settings.listen!r}: cannot listen there: {error.strerror}"
        ) from error
    listener.setblocking(False)
    return listener


async def serve(
    application: ASGIApp,
    settings: ConsoleSettings,
    listener: socket.socket,
    stop: asyncio.Event,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serves until `stop` is set. Requests in progress then have a second to end."""
    config = uvicorn.Config(
        application,
        http=H11Protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",  # any caller could fill the disk with warnings
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=settings.connections_max,
        timeout_keep_alive=settings.idle_ms_max // 1000,
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
    )
    config.load()
    server = _Server(config, settings, tls)

    async def end() -> None:
        await stop.wait()
        server.should_exit = True

    async with asyncio.TaskGroup() as tasks:
        ending = tasks.create_task(end())
        await server.serve(sockets=[listener])
        ending.cancel()
