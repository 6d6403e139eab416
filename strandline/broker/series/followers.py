"""The metrics of brokers as followers: how far the replicas of each are behind the partitions led here.

A series for each follower, and none for each partition: the largest lags are what an alarm needs. A replica
that a reassignment adds does not count as behind before it is in sync: it has a metric of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from strandline.adapters.telemetry.metrics import Sample, gauge
from strandline.broker.core.replication.lags import replica_lags
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.replica import Replica

_FOLLOWER: Final = "follower"
LAG_OFFSETS: Final = gauge(
    "strandline_follower_lag_offsets",
    "The largest number of offsets that a replica of this follower lacks of a partition that is led here.",
    _FOLLOWER,
)
LAG_BYTES: Final = gauge(
    "strandline_follower_lag_bytes",
    "About the bytes that this follower's replicas lack of all partitions that are led here.",
    _FOLLOWER,
)
LAG_S: Final = gauge(
    "strandline_follower_lag_seconds",
    "The longest time since a replica of this follower had all of a partition that is led here.",
    _FOLLOWER,
)
COPIES_LEFT: Final = gauge(
    "strandline_reassignment_left_bytes",
    "About the bytes that replicas which reassignments add still lack of partitions that are led here.",
)
REFILLS_LEFT: Final = gauge(
    "strandline_refill_left_bytes",
    "About the bytes that replicas which catch up, for example on an empty disk, lack of partitions that are "
    "led here.",
)
MAX_LAG: Final = gauge(
    "kafka_server_replicafetchermanager_maxlag",
    "The largest number of committed offsets that a replica here lacks of a partition that others lead.",
)

FOLLOWER_METRICS: Final = (LAG_OFFSETS, LAG_BYTES, LAG_S, COPIES_LEFT, REFILLS_LEFT, MAX_LAG)


@dataclass(slots=True)
class _Lag:
    offsets: int = 0
    size_bytes: int = 0
    time_ms: int = 0


class FollowerLags:
    """Sums and maxima over the replicas of one broker, at one moment."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._followers: dict[int, _Lag] = {}
        self._copies_left = 0
        self._refills_left = 0
        self._max_lag = 0

    def add_led(self, replica: Replica, leadership: Leadership) -> None:
        """A partition that is led here."""
        log, core = replica.log, leadership.core
        if not core.any_behind(log.log_end_offset):  # most partitions are idle
            for broker in core.assignment.replicas:
                if broker != core.me and broker not in self._followers:
                    self._followers[broker] = _Lag()
            return
        for each in replica_lags(core, log.log_end_offset, log.bytes_near, self._now):
            if each.broker == core.me:
                continue
            lacks = log.size_bytes if each.lag_bytes < 0 else each.lag_bytes
            if each.adding and not each.in_sync:
                self._copies_left += lacks
                continue
            if each.fetching and not each.in_sync and not each.removing:
                self._refills_left += lacks
            lag = self._followers.setdefault(each.broker, _Lag())
            lag.offsets = max(lag.offsets, each.lag)
            lag.size_bytes += max(0, each.lag_bytes)
            lag.time_ms = max(lag.time_ms, each.lag_ms)

    def add_followed(self, replica: Replica) -> None:
        """A replica here of a partition that another broker leads."""
        self._max_lag = max(self._max_lag, replica.committed_lag)

    def samples(self) -> Iterator[Sample]:
        for broker, lag in sorted(self._followers.items()):
            yield LAG_OFFSETS.is_now(lag.offsets, str(broker))
            yield LAG_BYTES.is_now(lag.size_bytes, str(broker))
            yield LAG_S.is_now(lag.time_ms / 1000, str(broker))
        yield COPIES_LEFT.is_now(self._copies_left)
        yield REFILLS_LEFT.is_now(self._refills_left)
        yield MAX_LAG.is_now(self._max_lag)
