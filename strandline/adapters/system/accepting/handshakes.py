"""Accepts the connections of an encrypted port, and encrypts them.

A server of asyncio tells of a connection after its TLS handshake only. Until then a connection costs 60 KB
and a descriptor, so here the owner of a port is asked before a handshake begins.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final

AT_ONCE_MAX: Final = 64
"""Connections that are accepted before other work has its turn."""
PAUSE_S: Final = 1.0
"""How long none is accepted if the process has no descriptor or memory for it."""
SHUTDOWN_S_MAX: Final = 1.0
"""How long an encrypted connection that is closed waits for the client's end of it."""
_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

BeginHandshake = Callable[[str], AbstractContextManager[None] | None]
"""Takes the address of a connection. Returns what counts it until the handshake has ended; None: there are
too many, and the connection is closed."""


@dataclass(frozen=True, slots=True)
class Encryption:
    """How the connections of a port are encrypted."""

    context: ssl.SSLContext
    handshake_s_max: float
    """A connection that takes longer is closed."""


class Handshakes:
    """Accepts at a port that listens, from `__init__` until `close`."""

    def __init__(
        self,
        bound: socket.socket,
        encryption: Encryption,
        protocol: Callable[[], asyncio.BufferedProtocol],
        tasks: asyncio.TaskGroup,
        begin: BeginHandshake,
    ) -> None:
        self._bound = bound
        self._encryption = encryption
        self._protocol = protocol
        self._tasks = tasks
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        bound.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Accepts no more. Handshakes that have begun go on."""
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
        counted = self._begin(str(address[0]))
        if counted is None:
            connection.close()
            return
        connection.setblocking(False)
        held = ExitStack()
        held.enter_context(counted)  # before the task runs: others are accepted until then
        self._tasks.create_task(self._encrypt(connection, held))

    async def _encrypt(self, connection: socket.socket, held: ExitStack) -> None:
        with held, suppress(OSError):  # among them: no TLS, a refused certificate, too late
            await self._loop.connect_accepted_socket(
                self._protocol,
                connection,
                ssl=self._encryption.context,
                ssl_handshake_timeout=self._encryption.handshake_s_max,
                ssl_shutdown_timeout=SHUTDOWN_S_MAX,
            )
