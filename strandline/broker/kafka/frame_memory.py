"""Bounds the memory of frames, over all connections: of those that arrive, and of requests in progress.

A connection whose frame needs more memory than there is reads no further until other requests are done, or
their connections are closed because they took too long. A batch counts until it is appended.

Small frames have memory of their own. So large ones that never end do not hold up heartbeats and metadata.
The connections of one address share a part of either memory. So frames of one client that never end do not
hold up those of others.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from strandline.broker.kafka.frames import FIRST_BYTES

SMALL_SHARE: Final = 4
"""One part in this many is for small frames."""
CLIENT_SHARE: Final = 2
"""One part in this many is for the connections of one address."""


class _Waiting(NamedTuple):
    client: str
    size: int
    granted: Callable[[], None]


class FrameMemory:
    """The bound, and the connections that wait for memory, first come first served.

    A connection waits for its turn among all, or first among those of its address, which has its part.
    """

    def __init__(self, bytes_max: int, client_bytes_max: int) -> None:
        self._left = bytes_max
        self._client_bytes_max = client_bytes_max
        self._of_client = Counter[str]()
        """Bytes that the connections of an address have, or wait for in `_waiting`."""
        self._waiting: deque[_Waiting] = deque()
        self._beyond_part: dict[str, deque[_Waiting]] = {}
        """Those that wait for others of their address."""

    @property
    def left(self) -> int:
        return self._left

    def take(self, client: str, count: int) -> bool:
        """Takes this many bytes if they are there and no connection waits for some."""
        if self._waiting or count > self._left or not self._has_part(client, count):
            return False
        self._left -= count
        self._of_client[client] += count
        return True

    def wait(self, client: str, count: int, granted: Callable[[], None]) -> None:
        """Calls `granted` once the bytes are taken."""
        waiting = _Waiting(client, count, granted)
        if self._has_part(client, count):
            self._queue(waiting)
        else:
            self._beyond_part.setdefault(client, deque()).append(waiting)

    def withdraw(self, client: str, granted: Callable[[], None]) -> None:
        """The connection waits no longer."""
        for each in self._waiting:
            if each.granted == granted:
                self._waiting.remove(each)
                self._returned(client, each.size)
                break
        else:
            others = [each for each in self._beyond_part.pop(client, ()) if each.granted != granted]
            if others:
                self._beyond_part[client] = deque(others)
            self._returned(client, 0)
        self._serve()

    def give_back(self, client: str, count: int) -> None:
        self._left += count
        self._returned(client, count)
        self._serve()

    def _has_part(self, client: str, count: int) -> bool:
        """True if its address has these bytes to spare, and no other connection of it waits for that."""
        return client not in self._beyond_part and self._of_client[client] + count <= self._client_bytes_max

    def _queue(self, waiting: _Waiting) -> None:
        self._of_client[waiting.client] += waiting.size
        self._waiting.append(waiting)

    def _returned(self, client: str, count: int) -> None:
        """Others of its address may have their turn."""
        self._of_client[client] -= count
        if not self._of_client[client]:
            del self._of_client[client]
        others = self._beyond_part.pop(client, deque())
        while others and self._has_part(client, others[0].size):
            self._queue(others.popleft())
        if others:
            self._beyond_part[client] = others

    def _serve(self) -> None:
        while self._waiting and self._waiting[0].size <= self._left:
            first = self._waiting.popleft()
            self._left -= first.size
            first.granted()


class FramePools:
    """The memory of all frames of one broker."""

    def __init__(self, bytes_max: int, frame_bytes_max: int) -> None:
        """`frame_bytes_max`: of one frame, which an address can always have."""
        small = bytes_max // SMALL_SHARE
        large = bytes_max - small
        self.small = FrameMemory(small, small // CLIENT_SHARE)
        self.large = FrameMemory(large, max(large // CLIENT_SHARE, frame_bytes_max))

    @property
    def left(self) -> int:
        return self.small.left + self.large.left

    def of(self, size: int) -> FrameMemory:
        """The memory for a frame of this many bytes. A small frame takes all of its memory at once."""
        return self.small if size <= FIRST_BYTES else self.large
