"""Ports for streams of bytes, served by the running event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from strandline.adapters.system.descriptors import connections_max
from strandline.errors import SettingsError

BACKLOG: Final = 1_024
"""Connections that the kernel has accepted and this process has not."""
DESCRIPTORS_PARTS: Final = 2
"""These ports get half of what `descriptors` has for connections, beside gRPC."""


class ByteServer:
    """One bound port: see `strandline.host.BytesServer`."""

    def __init__(self, bound: socket.socket) -> None:
        self._bound = bound
        self._server: asyncio.Server | None = None
        self.port: int = bound.getsockname()[1]
        self.connections_max = connections_max(DESCRIPTORS_PARTS)

    async def serve(self, protocol: Callable[[], asyncio.BufferedProtocol]) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(protocol, sock=self._bound, backlog=BACKLOG)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._bound.close()


def listen_bytes(setting: str, host: str, port: int) -> ByteServer:
    """Binds a port, and listens. Raises SettingsError."""
    bare = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    try:
        return ByteServer(socket.create_server((bare, port), family=family, backlog=BACKLOG))
    except OSError as error:
        raise SettingsError(
            f"setting {setting} = {port}: cannot listen on {host}:{port}: {error.strerror} "
            f"(set STRANDLINE_HOST or STRANDLINE_{setting.upper()})"
        ) from error
