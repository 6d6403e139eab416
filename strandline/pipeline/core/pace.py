"""How often a stream without news asks brokers for it."""

from __future__ import annotations

from typing import Final

INTERVAL_S_MAX: Final = 1.0
SHARE: Final = 8
"""A stream that had no news for a time waits for a part of it: records after a pause are seen soon."""


class Pace:
    """Spark asks a stream for news without a pause. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._idle_since: float | None = None
        self._looked_at = float("-inf")

    def busy(self) -> None:
        """The query has a batch, of this stream or of another one."""
        self._idle_since = None

    def wait_s(self, now: float) -> float:
        """How long to wait before the next look at the logs; 0 right after a batch."""
        if self._idle_since is None:
            return 0.0
        interval_s = min(INTERVAL_S_MAX, (now - self._idle_since) / SHARE)
        return max(0.0, self._looked_at + interval_s - now)

    def idle(self, now: float) -> None:
        """A look at the logs found nothing to read."""
        self._looked_at = now
        if self._idle_since is None:
            self._idle_since = now
