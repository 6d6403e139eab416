"""A token bucket: how long a caller has to wait.

Callers reserve what they use before they use it, first come, first served. What is larger than the bucket
passes like anything else, and those after it wait until its debt is paid. A caller that knows only afterwards
what it used corrects its reservation.
"""

from __future__ import annotations


class TokenBucket:
    """Lets `per_s` tokens through a second over time, and `burst_s` seconds' worth of them at once. A token
    is what the caller counts: a byte, a second of work, a partition."""

    def __init__(self, per_s: float, now: float, *, burst_s: float) -> None:
        assert per_s > 0, f"a bucket that never fills: {per_s} tokens/s"
        self.per_s = per_s
        self._capacity = per_s * burst_s
        self._tokens = self._capacity
        """Negative while tokens are reserved, or used, ahead of time."""
        self._counted_at = now

    @property
    def portion(self) -> int:
        """Tokens to reserve at once, so that several callers that share the bucket take turns."""
        return max(1, int(self._capacity / 2))

    def reserve(self, tokens: float, now: float) -> float:
        """Reserve tokens; returns the seconds to wait before they may be used."""
        self._fill(now)
        self._tokens -= tokens
        return max(0.0, -self._tokens / self.per_s)

    def correct(self, reserved: float, used: float) -> None:
        """Correct a reservation: this was used in the end."""
        self._tokens += reserved - used  # `_fill` drops what is more than the bucket holds

    def forgive(self, seconds: float) -> None:
        """Forget the part of the debt that takes longer than this to pay."""
        self._tokens = max(self._tokens, -seconds * self.per_s)

    def is_full(self, now: float) -> bool:
        """True if a new bucket would be in the same state."""
        self._fill(now)
        return self._tokens >= self._capacity

    def _fill(self, now: float) -> None:
        gained = (now - self._counted_at) * self.per_s
        self._tokens = min(self._capacity, self._tokens + gained)
        self._counted_at = now
