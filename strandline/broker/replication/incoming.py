"""Bounds the copies that a broker takes: the records of replicas that reassignments add to it.

Leaders push, and each knows only what it sends itself. So the receiving broker counts the copies of all
leaders, and tells each, with its next acknowledgement, for how long to hold them. Other records are not held:
members of the ISR, and replicas that are nearly caught up, share the stream.
"""

from __future__ import annotations

from typing import Final

from strandline.broker.replication.throttle import BURST_S
from strandline.ports import Clock
from strandline.security.quotas.token_bucket import TokenBucket

HOLD_MS_MAX: Final = 2**32 - 1
"""What the field of the message takes."""


class IncomingCopies:
    """The bound of one broker, over all its leaders. 0 bytes a second: there is none."""

    def __init__(self, bytes_per_s: int, clock: Clock) -> None:
        self._clock = clock
        self._bucket = TokenBucket(bytes_per_s, clock.monotonic(), burst_s=BURST_S) if bytes_per_s else None

    def received(self, size: int) -> None:
        """Copied records of this size have arrived. What exceeds the bound delays later ones."""
        if self._bucket is not None:
            self._bucket.reserve(size, self._clock.monotonic())

    @property
    def hold_ms(self) -> int:
        """For how long leaders have to send no copies, from now on."""
        if self._bucket is None:
            return 0
        return min(HOLD_MS_MAX, round(self._bucket.reserve(0, self._clock.monotonic()) * 1000))
