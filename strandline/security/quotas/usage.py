"""What callers have used of their quotas, and how long they have to wait for it.

Time is an argument. There is one bucket for the callers that share a quota.
"""

from __future__ import annotations

from typing import Final

from strandline.security.quotas.buckets import BUCKETS_MAX, Buckets
from strandline.security.quotas.model import NO_QUOTAS, Quota, Quotas
from strandline.security.quotas.token_bucket import TokenBucket

CLIENT_ID_CHARS_MAX: Final = 1_000
"""Longer client ids are cut: those that begin alike are one."""


class Usage:
    """The buckets of one process."""

    def __init__(self, *, delay_s_max: float, buckets_max: int = BUCKETS_MAX) -> None:
        """`delay_s_max`: no caller waits longer at once. What would take longer to pay for is forgiven."""
        self._delay_s_max = delay_s_max
        self._buckets: Buckets[tuple[Quota, str | None, str | None]] = Buckets(buckets_max)
        self.quotas = NO_QUOTAS
        self.throttled_s: dict[Quota, float] = dict.fromkeys(Quota, 0.0)
        """The sum of all delays that were asked of callers."""
        self.refused: dict[Quota, int] = dict.fromkeys(Quota, 0)
        """What was not admitted."""

    def __len__(self) -> int:
        return len(self._buckets)

    @property
    def empty(self) -> bool:
        """True if no quota of callers is set."""
        return not self.quotas.limits_callers

    def take(self, quotas: Quotas) -> None:
        """Go by these quotas from now on. A bucket whose limit is another one begins anew."""
        self.quotas = quotas
        if self.empty:
            self._buckets.clear()

    def limit(self, quota: Quota, user: str, client_id: str) -> float | None:
        """What the caller may use a second, in the quota's own unit; None: as much as it likes."""
        held = self.quotas.held(quota, user, client_id[:CLIENT_ID_CHARS_MAX])
        return None if held is None else held.limit

    def charge(self, quota: Quota, user: str, client_id: str, used: float, now: float) -> float:
        """Count what a caller uses: bytes, seconds, partitions. Returns the seconds that it has to wait
        then."""
        bucket = self._bucket(quota, user, client_id, now)
        if bucket is None:
            return 0.0
        wait_s = bucket.reserve(used, now)
        if wait_s > self._delay_s_max:
            bucket.forgive(self._delay_s_max)
            wait_s = self._delay_s_max
        self.throttled_s[quota] += wait_s
        return wait_s

    def admit(self, quota: Quota, user: str, client_id: str, used: float, now: float) -> float:
        """Count what a caller uses if it has paid for all before; then returns 0. Otherwise counts nothing,
        and returns the seconds until it may use more. Nothing is forgiven: it is refused, and not delayed."""
        bucket = self._bucket(quota, user, client_id, now)
        if bucket is None:
            return 0.0
        wait_s = bucket.reserve(0, now)
        if wait_s:
            self.refused[quota] += 1
        else:
            bucket.reserve(used, now)
        return wait_s

    def delayed(self, quota: Quota, wait_s: float) -> float:
        """A caller has to wait for what another process counts. Returns how long it waits at once,
        seconds."""
        wait_s = min(wait_s, self._delay_s_max)
        self.throttled_s[quota] += wait_s
        return wait_s

    def owed(self, quota: Quota, user: str, client_id: str, now: float) -> float:
        """The seconds until the caller may use more; 0: it may now."""
        bucket = self._bucket(quota, user, client_id, now)
        return 0.0 if bucket is None else bucket.reserve(0, now)

    def _bucket(self, quota: Quota, user: str, client_id: str, now: float) -> TokenBucket | None:
        held = self.quotas.held(quota, user, client_id[:CLIENT_ID_CHARS_MAX])
        if held is None:
            return None
        key = quota, held.user, held.client_id
        return self._buckets.of(key, held.limit * quota.unit, now)
