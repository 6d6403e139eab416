"""Cuts the bytes of a connection into frames: a kind of one byte, a length of four, then as many bytes.

Pure: no socket here. A large frame arrives in memory of its own, small ones in a buffer that they share.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, cast

from strandline.adapters.rpc.request_parsing import MalformedRequest

FRAMES: Final = "frames"
"""What is malformed, if frames are: see `MalformedRequest`."""
HEAD: Final = Struct(">BI")
SHARED_BYTES: Final = 64 * 1024
"""The most that is received at once while no large frame arrives."""


class Kind(IntEnum):
    """What a frame is."""

    OPENING = 1
    """The client's first frame: see `opening`."""
    ACCEPTED = 2
    """The server's first frame: the stream is open. It is empty."""
    MESSAGE = 3
    END = 4
    """The client sends no more messages. It is empty."""
    ERROR = 5
    """The server refuses the stream, or ends it: the serialized `Error`."""


Frame = tuple[Kind, bytes]
"""The bytes of a large frame are a bytearray, which decoders read as bytes; copying it would cost more."""


def head(kind: Kind, size: int) -> bytes:
    """What stands before a frame's bytes."""
    return HEAD.pack(kind, size)


class Frames:
    """The frames of one connection, as they arrive."""

    __slots__ = ("_body", "_bytes_max", "_filled", "_have", "_kind", "_shared")

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max`: the largest frame. Memory is for no more than that."""
        self._bytes_max = bytes_max
        self._shared = _buffer_for(bytes_max)
        self._have = 0
        """Bytes in the shared buffer that are no whole frame yet."""
        self._body: bytearray | None = None
        """The large frame that is arriving."""
        self._filled = 0
        self._kind = Kind.MESSAGE

    def allow(self, bytes_max: int) -> None:
        """From now on, frames may be as large as this, which is more than before."""
        self._bytes_max = bytes_max
        shared = _buffer_for(bytes_max)
        shared[: self._have] = self._shared[: self._have]
        self._shared = shared

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._body is not None:
            return memoryview(self._body)[self._filled :]
        return self._shared[self._have :]

    def filled(self, count: int) -> list[Frame]:
        """Note that `count` bytes of the room were filled. Returns the frames that are complete by it.

        Raises MalformedRequest for a frame of no kind, or of a size that none may have.
        """
        if self._body is None:
            self._have += count
            return self._cut()
        self._filled += count
        if self._filled < len(self._body):
            return []
        whole, self._body = self._body, None
        return [(self._kind, cast(bytes, whole))]

    def _cut(self) -> list[Frame]:
        found: list[Frame] = []
        at, have = 0, self._have
        while have - at >= HEAD.size:
            number, size = HEAD.unpack_from(self._shared, at)
            kind = self._checked(number, size)
            begin = at + HEAD.size
            if begin + size > have:
                if HEAD.size + size > len(self._shared):
                    self._begin(kind, size, self._shared[begin:have])
                    at = have
                break
            at = begin + size
            found.append((kind, bytes(self._shared[begin:at])))
        self._have = have - at
        if at:
            self._shared[: self._have] = bytes(self._shared[at:have])
        return found

    def _checked(self, number: int, size: int) -> Kind:
        if not Kind.OPENING <= number <= Kind.ERROR:
            text = f"a frame of kind {number}: the other end is no member of a cluster"
            raise MalformedRequest(text, kind=FRAMES)
        if size > self._bytes_max:
            text = f"a frame of {size} bytes; {self._bytes_max} are allowed"
            raise MalformedRequest(text, kind=FRAMES, limit=self._bytes_max)
        return Kind(number)

    def _begin(self, kind: Kind, size: int, first: memoryview) -> None:
        self._kind, self._body, self._filled = kind, bytearray(size), len(first)
        self._body[: len(first)] = first


def _buffer_for(bytes_max: int) -> memoryview:
    return memoryview(bytearray(min(SHARED_BYTES, HEAD.size + bytes_max)))
