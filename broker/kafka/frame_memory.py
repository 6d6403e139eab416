"""Bounds the memory of frames, over all connections: of those that arrive, and of requests in progress.

A connection whose frame needs more memory than there is reads no further until other requests are done, or
their connections are closed because they took too long. A batch counts until it is appended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


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
