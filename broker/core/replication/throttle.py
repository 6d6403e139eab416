"""A token bucket: how long a sender has to wait.

Senders reserve room before they send, first come, first served, and correct the reservation afterwards,
because only whole batches are sent. So a batch that is larger than the bucket passes like any other, and
those after it wait until its debt is paid.
"""

from __future__ import annotations

from typing import Final

BURST_S: Final = 0.5
"""The time in which an unused bucket fills up."""


class TokenBucket:
    """Lets `bytes_per_s` through over time, and half a second's worth of it at once."""

    def __init__(self, bytes_per_s: int, now: float) -> None:
        assert bytes_per_s > 0, f"a bucket that never fills: {bytes_per_s} bytes/s"
        self.bytes_per_s = bytes_per_s
        self._capacity = bytes_per_s * BURST_S
        self._tokens = self._capacity
        """Negative while bytes are reserved, or sent, ahead of time."""
        self._counted_at = now

    @property
    def portion(self) -> int:
        """Bytes to reserve at once, so that several senders that share the bucket take turns."""
        return max(1, int(self._capacity / 2))

    def reserve(self, size: int, now: float) -> float:
        """Reserve `size` bytes; returns the seconds to wait before they may be sent."""
        self._fill(now)
        self._tokens -= size
        return max(0.0, -self._tokens / self.bytes_per_s)

    def correct(self, reserved: int, sent: int) -> None:
        """Correct a reservation: `sent` bytes were sent in the end."""
        self._tokens = min(self._capacity, self._tokens + reserved - sent)

    def is_full(self, now: float) -> bool:
        """True if a new bucket would be in the same state."""
        self._fill(now)
        return self._tokens >= self._capacity

    def _fill(self, now: float) -> None:
        gained = (now - self._counted_at) * self.bytes_per_s
        self._tokens = min(self._capacity, self._tokens + gained)
        self._counted_at = now
