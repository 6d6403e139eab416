"""Accepts the connections of a port, has them wait for their turn, and encrypts them.

A server of asyncio tells of a connection after its TLS handshake only. Until then a connection costs 60 KB
and a descriptor, so here the owner of a port is asked when a connection arrives.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final

from strandline.host import Arrival, OnArrival

AT_ONCE_MAX: Final = 64
"""Connections that are accepted before other work has its turn."""
PAUSE_S: Final = 1.0
"""How long none is accepted if the process has no descriptor or memory for it."""
SHUTDOWN_S_MAX: Final = 1.0
"""How long an encrypted connection that is closed waits for the client's end of it."""
_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


@dataclass(frozen=True, slots=True)
class Encryption:
    """How the connections of a port are encrypted."""

    context: ssl.SSLContext
    handshake_s_max: float
    """A connection that takes longer is closed."""


class Acceptor:
    """Accepts at a port that listens, from `__init__` until `close`."""

    def __init__(
        self,
        bound: socket.socket,
        encryption: Encryption | None,
        protocol: Callable[[], asyncio.BufferedProtocol],
        tasks: asyncio.TaskGroup,
        on_arrival: OnArrival,
    ) -> None:
        """None: connections are in plaintext."""
        self._bound = bound
        self._encryption = encryption
        self._protocol = protocol
        self._tasks = tasks
        self._on_arrival = on_arrival
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        bound.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Accepts no more. Connections that have arrived are served."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._bound)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._bound, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE_MAX):
            try:
                connection, address = self._bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._loop.remove_reader(self._bound)
                self._pause = self._loop.call_later(PAUSE_S, self._resume)
                return
            self._take(connection, address)

    def _take(self, connection: socket.socket, address: Any) -> None:
        arrival = self._on_arrival(str(address[0]))
        if arrival is None:
            connection.close()
            return
        connection.setblocking(False)
        held = ExitStack()
        held.enter_context(arrival.counted)  # before the task runs: others are accepted until then
        self._tasks.create_task(self._serve(connection, arrival, held))

    async def _serve(self, connection: socket.socket, arrival: Arrival, held: ExitStack) -> None:
        with held:
            served = False
            try:
                if arrival.wait_s:
                    await asyncio.sleep(arrival.wait_s)
                served = arrival.served
            finally:
                if not served:
                    connection.close()
            if served:
                await self._drive(connection)

    async def _drive(self, connection: socket.socket) -> None:
        encryption = self._encryption
        with suppress(OSError):  # among them: no TLS, a refused certificate, too late
            if encryption is None:
                await self._loop.connect_accepted_socket(self._protocol, connection)
                return
            await self._loop.connect_accepted_socket(
                self._protocol,
                connection,
                ssl=encryption.context,
                ssl_handshake_timeout=encryption.handshake_s_max,
                ssl_shutdown_timeout=SHUTDOWN_S_MAX,
            )
