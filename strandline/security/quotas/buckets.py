"""The token buckets of one process, one for those that share a quota, each one second deep."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from strandline.security.quotas.token_bucket import TokenBucket

Key = TypeVar("Key", bound=Hashable)

BURST_S: Final = 1.0
"""The time in which an unused bucket fills up."""
BUCKETS_MAX: Final = 10_000
"""Client ids are the clients', and addresses of IPv6 nearly so: without a bound they could fill the memory.
The bucket that was used least recently goes first."""


class Buckets(Generic[Key]):
    """Buckets by what they are of."""

    def __init__(self, count_max: int = BUCKETS_MAX) -> None:
        self._count_max = count_max
        self._by_key: OrderedDict[Key, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_key)

    def clear(self) -> None:
        self._by_key.clear()

    def of(self, key: Key, per_s: float, now: float) -> TokenBucket:
        """A bucket whose limit was another one begins anew."""
        bucket = self._by_key.get(key)
        if bucket is None or bucket.per_s != per_s:
            bucket = self._by_key[key] = TokenBucket(per_s, now, burst_s=BURST_S)
        self._by_key.move_to_end(key)
        if len(self._by_key) > self._count_max:
            self._by_key.popitem(last=False)
        return bucket
