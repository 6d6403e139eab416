"""One direction of a stream: messages in order, and no more of them unread than HTTP/2 would take."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from strandline.simulation.engine.network import End

WINDOW_BYTES: Final = 64 * 1024
"""A writer waits while this much or more is unread."""


class FlowBroken(Exception):
    """The flow was broken off: by this end, by the peer, or with its connection."""


class Flow:
    """What one end writes and the other reads. Each method names the end that calls it.

    After an end that the writer set, or a break, a reader still gets the messages that arrived before.
    """

    def __init__(self, writer: End, stream: int) -> None:
        self._writer = writer
        self._stream = stream
        self._network = writer.connection.network
        self._label = f"message {writer.connection.number}/{stream}"
        self._unread_bytes = 0
        self._room: asyncio.Future[None] | None = None
        """The writer waits for it."""
        self._write_broken = ""
        self._arrived: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        """The reader waits for it."""
        self._ended = False
        self._read_broken = ""

    # --- the writer's end --------------------------------------------------------------------

    async def write(self, data: bytes) -> None:
        """Returns once the message is on its way. Raises FlowBroken."""
        while self._unread_bytes >= WINDOW_BYTES and not self._write_broken:
            self._room = asyncio.get_running_loop().create_future()
            await self._room
        if self._write_broken:
            raise FlowBroken(self._write_broken)
        self._unread_bytes += len(data)
        self._network.trace.note(self._label, data)
        self._writer.send(self._stream, self.arrive, data)

    def end(self) -> None:
        """No message follows."""
        self._writer.send(self._stream, self.arrive, None)

    def break_writing(self, reason: str) -> None:
        self._write_broken = self._write_broken or reason
        self._make_room()

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    # --- the reader's end --------------------------------------------------------------------

    def arrive(self, data: bytes | None) -> None:
        """Take a message; None: there is no further one."""
        if data is None:
            self._ended = True
        else:
            self._arrived.append(data)
        self._wake()

    async def read(self) -> bytes | None:
        """The next message; None after the last one. Raises FlowBroken."""
        while not self._arrived:
            if self._read_broken:
                raise FlowBroken(self._read_broken)
            if self._ended:
                return None
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        data = self._arrived.popleft()
        was_full = self._unread_bytes >= WINDOW_BYTES
        self._unread_bytes -= len(data)
        if was_full and self._unread_bytes < WINDOW_BYTES:
            self._writer.peer.send(self._stream, self._make_room)
        return data

    def break_reading(self, reason: str) -> None:
        self._read_broken = self._read_broken or reason
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
