"""The HTTP server: uvicorn, within the bounds of the settings."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from strandline.config.console import ConsoleSettings
from strandline.errors import SettingsError

GRACE_S = 1
"""How long requests in progress have to end when the console stops."""
BACKLOG = 256


class Server(uvicorn.Server):
    """Leaves signals to the process, which stops more than this server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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
        http="h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        limit_concurrency=settings.connections_max,
        timeout_keep_alive=settings.idle_ms_max // 1000,
        timeout_graceful_shutdown=GRACE_S,
    )
    config.load()
    config.ssl = tls
    server = Server(config)

    async def end() -> None:
        await stop.wait()
        server.should_exit = True

    async with asyncio.TaskGroup() as tasks:
        ending = tasks.create_task(end())
        await server.serve(sockets=[listener])
        ending.cancel()
