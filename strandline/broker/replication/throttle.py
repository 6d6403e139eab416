"""Throttles the copying to replicas that are far behind: new ones of a reassignment, and those that refill.

A replica *refills* if no reassignment adds it and it is not in sync: its disk is empty, or its broker was
away for long.
Members of the ISR are never slowed down. A replica that has nearly caught up is not either, since it could
never join (CORRECTNESS I10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.local_replica import LocalReplica
from strandline.config.services.broker import BrokerSettings
from strandline.errors import StorageBusy, StorageFailed
from strandline.ids import BrokerId, PartitionKey
from strandline.ports import Clock
from strandline.security.quotas.token_bucket import TokenBucket

BURST_S: Final = 0.5
"""The time in which an unused bucket fills up."""


@dataclass(frozen=True, slots=True)
class Grant:
    """An allowance: this many bytes may be sent from that moment on."""

    size: int
    due: float
    buckets: tuple[TokenBucket, ...]
    asked_bytes_per_s: int | None
    """The bound that the partition's reassignment had at that time; None: the replica refills."""

    def used(self, sent: int) -> None:
        """Notes the bytes sent. They may exceed the grant, since a batch is sent as a whole."""
        for bucket in self.buckets:
            bucket.correct(self.size, sent)


class CopyThrottle:
    """The throttle of one broker: a bucket for all that reassignments add, one for each partition with a
    bound of its own, and one for all replicas that refill."""

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self._near_bytes = settings.reassignment_near_bytes
        self._clock = clock
        rate = settings.reassignment_bytes_per_s
        self._all = TokenBucket(rate, clock.monotonic(), burst_s=BURST_S) if rate else None
        refill = settings.refill_bytes_per_s
        self._refill = TokenBucket(refill, clock.monotonic(), burst_s=BURST_S) if refill else None
        self._partitions: dict[PartitionKey, TokenBucket] = {}
        self.holds = 0
        """How often a flow to a replica that a reassignment adds had to wait."""

    @staticmethod
    def adds(leadership: Leadership, follower: BrokerId) -> bool:
        """True if a reassignment adds this follower, and it is not in sync."""
        added = _asked_bytes_per_s(leadership.replica, follower) is not None
        return added and CopyThrottle.concerns(leadership, follower)

    @staticmethod
    def concerns(leadership: Leadership, follower: BrokerId) -> bool:
        """True if this follower is not in sync."""
        return follower not in leadership.core.isr.maximal()

    def is_bounded(self, replica: LocalReplica, follower: BrokerId) -> bool:
        """True if records need a grant: there is a bound for this follower's copy."""
        asked = _asked_bytes_per_s(replica, follower)
        return self._refill is not None if asked is None else (self._all is not None or asked > 0)

    def is_far(self, replica: LocalReplica, offset: int) -> bool:
        """True if this offset is far from the end of the log: nearer ones are never held back."""
        try:
            return replica.log.bytes_from(offset) > self._near_bytes
        except (StorageFailed, StorageBusy):
            return False  # the read that follows reports the error to the follower

    def grant(self, replica: LocalReplica, follower: BrokerId, size_max: int) -> Grant:
        """Grants at most this many bytes of the partition."""
        now = self._clock.monotonic()
        asked = _asked_bytes_per_s(replica, follower)
        buckets = self._buckets(replica.key, asked, now)
        size = min(size_max, *(bucket.portion for bucket in buckets))
        wait_s = max(bucket.reserve(size, now) for bucket in buckets)
        self.holds += wait_s > 0 and asked is not None
        return Grant(size, now + wait_s, buckets, asked)

    @staticmethod
    def stands(grant: Grant, replica: LocalReplica, follower: BrokerId) -> bool:
        """False once the bound has changed: a flow must not wait by the old one."""
        return _asked_bytes_per_s(replica, follower) == grant.asked_bytes_per_s

    def _buckets(self, key: PartitionKey, rate: int | None, now: float) -> tuple[TokenBucket, ...]:
        whole = self._all
        if rate is None:
            assert self._refill is not None, f"{key} is bounded by nothing"
            return (self._refill,)
        if not rate:
            assert whole is not None, f"{key} is bounded by nothing"
            return (whole,)
        own = self._partitions.get(key)
        if own is None or own.per_s != rate:
            # Drops the buckets of partitions whose reassignments are done.
            self._partitions = {k: each for k, each in self._partitions.items() if not each.is_full(now)}
            own = self._partitions[key] = TokenBucket(rate, now, burst_s=BURST_S)
        return (own,) if whole is None else (own, whole)


def _asked_bytes_per_s(replica: LocalReplica, follower: BrokerId) -> int | None:
    """The bound of the reassignment that adds this follower, 0 if it has none; None: no reassignment does."""
    wanted = replica.reassignment
    return None if wanted is None or follower in wanted.original else wanted.throttle_bytes_per_s
