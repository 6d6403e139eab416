"""Throttles replication to the replicas that a reassignment adds, and only to them.

Members of the ISR are never slowed down. A replica that has nearly caught up is not either, since it could
never join (CORRECTNESS I10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.replica import Replica
from strandline.config.services import BrokerSettings
from strandline.errors import StorageBusy, StorageFailed
from strandline.ids import BrokerId, PartitionKey
from strandline.ports import Clock
from strandline.security.quotas.token_bucket import TokenBucket
from strandline.vocabulary.metadata import Reassignment

BURST_S: Final = 0.5
"""The time in which an unused bucket fills up."""


@dataclass(frozen=True, slots=True)
class Grant:
    """An allowance: this many bytes may be sent from that moment on."""

    size: int
    due: float
    buckets: tuple[TokenBucket, ...]
    asked_bytes_per_s: int
    """The partition's own bound at that time."""

    def used(self, sent: int) -> None:
        """Notes the bytes sent. They may exceed the grant, since a batch is sent as a whole."""
        for bucket in self.buckets:
            bucket.correct(self.size, sent)


class ReassignmentThrottle:
    """The throttle of one broker: a bucket for all throttled bytes, and one for each partition with its own
    bound."""

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self._near_bytes = settings.reassignment_near_bytes
        self._clock = clock
        rate = settings.reassignment_bytes_per_s
        self._all = TokenBucket(rate, clock.monotonic(), burst_s=BURST_S) if rate else None
        self._partitions: dict[PartitionKey, TokenBucket] = {}
        self.holds = 0
        """How often a flow had to wait."""

    def concerns(self, leadership: Leadership, follower: BrokerId) -> bool:
        """True if a reassignment adds this follower, and it is not in sync."""
        wanted = leadership.replica.reassignment
        return (
            wanted is not None
            and follower not in wanted.original
            and follower not in leadership.core.isr.maximal()
        )

    def is_bounded(self, replica: Replica, offset: int) -> bool:
        """True if records after this offset need a grant: there is a bound, and the end of the log is far."""
        wanted = replica.reassignment
        if wanted is None or (self._all is None and not wanted.throttle_bytes_per_s):
            return False
        try:
            return replica.log.bytes_from(offset) > self._near_bytes
        except (StorageFailed, StorageBusy):
            return False  # the read that follows reports the error to the follower

    def grant(self, replica: Replica, size_max: int) -> Grant:
        """Grants at most this many bytes of the partition."""
        now = self._clock.monotonic()
        assert replica.reassignment is not None
        buckets = self._buckets(replica.key, replica.reassignment, now)
        size = min(size_max, *(bucket.portion for bucket in buckets))
        wait_s = max(bucket.reserve(size, now) for bucket in buckets)
        self.holds += wait_s > 0
        return Grant(size, now + wait_s, buckets, replica.reassignment.throttle_bytes_per_s)

    @staticmethod
    def stands(grant: Grant, replica: Replica) -> bool:
        """False once the partition's bound has changed: a flow must not wait by the old bound."""
        wanted = replica.reassignment
        return wanted is not None and wanted.throttle_bytes_per_s == grant.asked_bytes_per_s

    def _buckets(self, key: PartitionKey, wanted: Reassignment, now: float) -> tuple[TokenBucket, ...]:
        rate, whole = wanted.throttle_bytes_per_s, self._all
        if not rate:
            assert whole is not None, f"{key} is bounded by nothing"
            return (whole,)
        own = self._partitions.get(key)
        if own is None or own.per_s != rate:
            # Drops the buckets of partitions whose reassignments are done.
            self._partitions = {k: each for k, each in self._partitions.items() if not each.is_full(now)}
            own = self._partitions[key] = TokenBucket(rate, now, burst_s=BURST_S)
        return (own,) if whole is None else (own, whole)
