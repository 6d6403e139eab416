"""Bounds the memory of frames, over all connections: of those that arrive, and of requests in progress.

A connection whose frame needs more memory than there is reads no further until other requests are done, or
their connections are closed because they took too long. A batch counts until it is appended.

Small frames have memory of their own. So large ones that never end do not hold up heartbeats and metadata.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from strandline.broker.kafka.frames import FIRST_BYTES

SMALL_SHARE: Final = 4
"""One part in this many is for small frames."""


class FrameMemory:
    """The bound, and the connections that wait for memory, first come first served."""

    def __init__(self, bytes_max: int) -> None:
        self._left = bytes_max
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def left(self) -> int:
        return self._left

    def take(self, count: int) -> bool:
        """Takes this many bytes if they are there and no connection waits for some."""
        if self._waiting or count > self._left:
            return False
        self._left -= count
        return True

    def wait(self, count: int, granted: Callable[[], None]) -> None:
        """Calls `granted` once the bytes are taken."""
        self._waiting.append((count, granted))

    def withdraw(self, granted: Callable[[], None]) -> None:
        """The connection waits no longer."""
        self._waiting = deque(each for each in self._waiting if each[1] != granted)
        self._serve()

    def give_back(self, count: int) -> None:
        self._left += count
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._left:
            count, granted = self._waiting.popleft()
            self._left -= count
            granted()


class FramePools:
    """The memory of all frames of one broker."""

    def __init__(self, bytes_max: int) -> None:
        self.small = FrameMemory(bytes_max // SMALL_SHARE)
        self.large = FrameMemory(bytes_max - bytes_max // SMALL_SHARE)

    @property
    def left(self) -> int:
        return self.small.left + self.large.left

    def of(self, size: int) -> FrameMemory:
        """The memory for a frame of this many bytes. A small frame takes all of its memory at once."""
        return self.small if size <= FIRST_BYTES else self.large
