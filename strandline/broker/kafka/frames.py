"""Cuts the bytes of a connection into frames: a length of four bytes, then as many bytes.

A frame's memory grows with what has arrived, so a length that is a lie costs nothing. Pure: no socket here.
"""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.fields import MalformedRequest

LENGTH_BYTES: Final = 4
FIRST_BYTES: Final = 64 * 1024
"""The first piece of memory for a frame; later ones double it."""


class Frames:
    """The frames of one connection."""

    __slots__ = ("_body", "_have", "_head", "_in_body", "_size", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max`: the largest frame."""
        self.bytes_max = bytes_max
        self._head = bytearray(LENGTH_BYTES)
        self._body = bytearray()
        self._in_body = False
        self._have = 0
        self._size = LENGTH_BYTES

    @property
    def begun(self) -> bool:
        """True if a part of a frame has arrived."""
        return self._in_body or self._have > 0

    @property
    def size(self) -> int:
        """Bytes of the frame that is arriving, once they are known."""
        return self._size

    @property
    def held(self) -> int:
        """Bytes of memory for the frame that is arriving."""
        return len(self._body)

    @property
    def growth(self) -> int:
        """Bytes of memory that the frame needs before more of it can arrive; 0: it has room."""
        if not self._in_body or self._have < len(self._body):
            return 0
        return min(self._size, max(FIRST_BYTES, 2 * self._have)) - len(self._body)

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if not self._in_body:
            return memoryview(self._head)[self._have :]
        if growth := self.growth:
            self._body += bytes(growth)
        return memoryview(self._body)[self._have :]

    def filled(self, count: int) -> bytearray | None:
        """Note that `count` bytes of the room were filled. Returns a frame that is complete by it.

        Raises MalformedRequest for a length that no frame may have.
        """
        self._have += count
        if self._have < self._size:
            return None
        if self._in_body:
            frame, self._body = self._body, bytearray()
            self._expect(LENGTH_BYTES, in_body=False)
            return frame
        size = int.from_bytes(self._head, "big", signed=True)
        if not 0 < size <= self.bytes_max:
            raise MalformedRequest(f"a frame of {size} bytes; 1 to {self.bytes_max} are allowed")
        self._expect(size, in_body=True)
        return None

    def _expect(self, size: int, *, in_body: bool) -> None:
        self._in_body, self._size, self._have = in_body, size, 0
