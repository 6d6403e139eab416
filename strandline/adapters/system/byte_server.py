"""Ports for streams of bytes, served by the running event loop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from strandline.adapters.system.descriptors import connections_max
from strandline.errors import SettingsError
from strandline.ports import Caller, Listener

BACKLOG: Final = 1_024
"""Connections that the kernel has accepted and this process has not."""
DESCRIPTORS_PARTS: Final = 2
"""These ports get half of what `descriptors` has for connections, beside gRPC."""

SHUTDOWN_S_MAX: Final = 1.0
"""How long an encrypted connection that is closed waits for the client's end of it."""


@dataclass(frozen=True, slots=True)
class Encryption:
    """How the connections of a port are encrypted."""

    context: ssl.SSLContext
    handshake_s_max: float
    """A connection that takes longer is closed."""


class ByteServer:
    """One bound port: see `strandline.host.BytesServer`."""

    def __init__(self, bound: socket.socket, encryption: Encryption | None) -> None:
        self._bound = bound
        self._encryption = encryption
        self._server: asyncio.Server | None = None
        self.port: int = bound.getsockname()[1]
        self.connections_max = connections_max(DESCRIPTORS_PARTS)

    async def serve(self, protocol: Callable[[], asyncio.BufferedProtocol]) -> None:
        loop = asyncio.get_running_loop()
        if self._encryption is None:
            self._server = await loop.create_server(protocol, sock=self._bound, backlog=BACKLOG)
            return
        self._server = await loop.create_server(
            protocol,
            sock=self._bound,
            backlog=BACKLOG,
            ssl=self._encryption.context,
            ssl_handshake_timeout=self._encryption.handshake_s_max,
            ssl_shutdown_timeout=SHUTDOWN_S_MAX,
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._bound.close()


def caller_at(
    transport: asyncio.BaseTransport, protocol: str, listener: Listener = Listener.INTERNAL
) -> Caller:
    """Who is at the other end of a connection, by its address. Its name begins with `protocol`."""
    host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
    return Caller(f"{protocol}:{host}:{port}", str(host), listener)


def listen_bytes(setting: str, host: str, port: int, encryption: Encryption | None = None) -> ByteServer:
    """Binds a port, and listens. None: its connections are in plaintext. Raises SettingsError."""
    bare = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    try:
        bound = socket.create_server((bare, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise SettingsError(
            f"setting {setting} = {port}: cannot listen on {host}:{port}: {error.strerror} "
            f"(set STRANDLINE_HOST or STRANDLINE_{setting.upper()})"
        ) from error
    return ByteServer(bound, encryption)
