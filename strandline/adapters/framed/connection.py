"""One connection of frames, either end of it. It is read no faster than its frames are taken, and written no
faster than the peer reads."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from strandline.adapters.framed.frames import Frame, Frames, Kind, head
from strandline.errors import StrandlineError

WAITING_MAX: Final = 16
"""Frames that wait to be taken; at this number the connection is not read."""
KEEPALIVE: Final = (("TCP_KEEPIDLE", 1), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 2))
"""A peer whose host is gone is noticed after about three seconds, where the system has these options."""
UNSENT_MS_MAX: Final = 3_000
"""For how long the peer's host may leave sent bytes unacknowledged."""


class FramedConnection(asyncio.BufferedProtocol):
    """The protocol that a transport drives. All methods run on the event loop."""

    def __init__(self, bytes_max: int, on_opened: Callable[[FramedConnection], None] | None = None) -> None:
        """`bytes_max`: the largest frame that the peer may send. `on_opened`: called once it is connected."""
        self.frames = Frames(bytes_max)
        self.failure: StrandlineError | None = None
        """Why this end closed the connection."""
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the connection is gone."""
        self._on_opened = on_opened
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[Frame] = deque()
        self._taker: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None, "it was never connected"
        return self._transport

    # --- the transport -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has the methods, and another base
        _keep_alive(self._transport.get_extra_info("socket"))
        if self._on_opened is not None:
            self._on_opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        self._writable.set()
        self._wake()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            arrived = self.frames.filled(nbytes)
        except StrandlineError as error:
            self.fail(error)
            return
        if not arrived:
            return
        self._waiting.extend(arrived)
        if len(self._waiting) >= WAITING_MAX and not self.transport.is_closing():
            self.transport.pause_reading()
        self._wake()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # --- frames ------------------------------------------------------------------------------

    async def take(self) -> Frame | None:
        """The next frame; None once the connection is gone and all of them are taken. For one task."""
        while not self._waiting:
            if self.closed.done():
                return None
            self._taker = asyncio.get_running_loop().create_future()
            try:
                await self._taker
            finally:
                self._taker = None
        frame = self._waiting.popleft()
        if len(self._waiting) == WAITING_MAX - 1 and not self.transport.is_closing():
            self.transport.resume_reading()
        return frame

    async def send(self, kind: Kind, data: bytes = b"") -> None:
        """Returns once the transport has room for more. What is sent to a peer that is gone is dropped."""
        if not self.transport.is_closing():
            if data:
                self.transport.writelines((head(kind, len(data)), data))
            else:
                self.transport.write(head(kind, 0))
        await self._writable.wait()

    def _wake(self) -> None:
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)

    # --- the end -----------------------------------------------------------------------------

    def fail(self, error: StrandlineError) -> None:
        """Ends the connection at once, because of what the peer sent, or did not."""
        self.failure = self.failure or error
        self.transport.abort()

    def close(self) -> None:
        """Ends the connection. What is sent already still leaves."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()


def _keep_alive(connected: socket.socket | None) -> None:
    """Has the kernel find out whether the peer's host is there. A process that hangs looks alive to it."""
    if connected is None:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (*KEEPALIVE, ("TCP_USER_TIMEOUT", UNSENT_MS_MAX)):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
