"""Ports for streams of bytes, served by the running event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from strandline.adapters.system.accepting.acceptor import Acceptor, Encryption
from strandline.adapters.system.descriptors import connections_max
from strandline.errors import SettingsError
from strandline.host import OnArrival
from strandline.ports import Caller, Listener

BACKLOG: Final = 1_024
"""Connections that the kernel has accepted and this process has not."""
DESCRIPTORS_PARTS: Final = 2
"""These ports get half of what `descriptors` has for connections, beside gRPC."""


class ByteServer:
    """One bound port: see `strandline.host.BytesServer`."""

    def __init__(self, bound: socket.socket, encryption: Encryption | None) -> None:
        self._bound = bound
        self._encryption = encryption
        self._acceptor: Acceptor | None = None
        self.port: int = bound.getsockname()[1]
        self.connections_max = connections_max(DESCRIPTORS_PARTS)

    async def serve(
        self,
        protocol: Callable[[], asyncio.BufferedProtocol],
        tasks: asyncio.TaskGroup,
        on_arrival: OnArrival,
    ) -> None:
        self._acceptor = Acceptor(self._bound, self._encryption, protocol, tasks, on_arrival)

    def close(self) -> None:
        acceptor, self._acceptor = self._acceptor, None
        if acceptor is not None:
            acceptor.close()
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
