"""A token bucket: how long who wants to send has to wait.

Room is reserved before it is sent, first come, first served, and what was sent is put right afterwards, for
only whole batches go. So a batch that is larger than the bucket passes like any other, and those after it
wait for what it owes.
"""

from __future__ import annotations

from typing import Final

BURST_S: Final = 0.5
"""A bucket that was not used for so long is full."""


class TokenBucket:
    """Lets `bytes_per_s` through over time, half a second's worth of it at once."""

    def __init__(self, bytes_per_s: int, now: float) -> None:
        assert bytes_per_s > 0, f"a bucket that never fills: {bytes_per_s} bytes/s"
        self.bytes_per_s = bytes_per_s
        self._capacity = bytes_per_s * BURST_S
        self._tokens = self._capacity
        """Below zero: reserved, or sent, ahead of time."""
        self._counted_at = now

    @property
    def portion(self) -> int:
        """What to reserve at once, so that several who share the bucket take turns."""
        return max(1, int(self._capacity / 2))

    def reserve(self, size: int, now: float) -> float:
        """Take so much; for how many seconds it may not be sent yet."""
        self._fill(now)
        self._tokens -= size
        return max(0.0, -self._tokens / self.bytes_per_s)

    def put_right(self, reserved: int, sent: int) -> None:
        """It was this much in the end."""
        self._tokens = min(self._capacity, self._tokens + reserved - sent)

    def is_full(self, now: float) -> bool:
        """True if a new one would be the same."""
        self._fill(now)
        return self._tokens >= self._capacity

    def _fill(self, now: float) -> None:
        gained = (now - self._counted_at) * self.bytes_per_s
        self._tokens = min(self._capacity, self._tokens + gained)
        self._counted_at = now
