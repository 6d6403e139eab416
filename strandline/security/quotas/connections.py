"""How fast an address may make connections, and which of them wait (KIP-612).

Time is an argument. Connections over the rate wait for their turn, first come, first served. One whose turn
would come too late is closed when the longest wait is over: closed at once, its client would be back at once.
"""

from __future__ import annotations

from typing import NamedTuple

from strandline.security.quotas.buckets import BUCKETS_MAX, Buckets
from strandline.security.quotas.model import NO_QUOTAS, Quota, Quotas


class Turn(NamedTuple):
    """What becomes of a connection."""

    wait_s: float
    """How long it waits first, seconds."""
    served: bool = True
    """False: it is closed then."""


AT_ONCE = Turn(0.0)


class ConnectionRates:
    """The connections that addresses made to one process."""

    def __init__(self, *, delay_s_max: float, buckets_max: int = BUCKETS_MAX) -> None:
        """`delay_s_max`: no connection waits longer."""
        self._delay_s_max = delay_s_max
        self._buckets: Buckets[str] = Buckets(buckets_max)
        self.quotas = NO_QUOTAS
        self.throttled_s = 0.0
        """The sum of all delays."""

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, quotas: Quotas) -> None:
        """Go by these quotas from now on. A bucket whose limit is another one begins anew."""
        self.quotas = quotas
        if not quotas.limits_connections:
            self._buckets.clear()

    def arrives(self, address: str, now: float) -> Turn:
        """Counts a connection of the address. One that is not served does not count."""
        held = self.quotas.held_by_address(address)
        if held is None:
            return AT_ONCE
        bucket = self._buckets.of(held.shared_by, held.limit * Quota.CONNECTION_CREATION_RATE.unit, now)
        wait_s = bucket.reserve(1, now)
        turn = Turn(wait_s)
        if wait_s > self._delay_s_max:
            bucket.correct(1, 0)
            turn = Turn(self._delay_s_max, served=False)
        self.throttled_s += turn.wait_s
        return turn
