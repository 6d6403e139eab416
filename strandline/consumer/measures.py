"""What a consumer measures."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from strandline.client.core.positions import Position
from strandline.client.metrics import ClientMetric, Window, counter, gauge
from strandline.client.reading.fetcher import FetchMeasures
from strandline.client.reading.records import FetchedBatch
from strandline.consumer.core.member_states import State
from strandline.ports import Clock

_gauge, _counter = partial(gauge, "consumer"), partial(counter, "consumer")

CONSUMER_METRICS: Final[tuple[ClientMetric, ...]] = (
    _counter("records-consumed-total", "{record}", "Records of batches that get calls have taken."),
    _gauge("records-consumed-rate", "{record}/s", "The same, a second."),
    _counter("bytes-consumed-total", "By", "Bytes of answers to fetches."),
    _gauge("bytes-consumed-rate", "By/s", "The same, a second."),
    _counter("fetch-total", "{request}", "Fetches that were answered."),
    _gauge("fetch-latency-avg", "ms", "The average time of a fetch, waiting for records included."),
    _gauge("fetch-latency-max", "ms", "The longest one."),
    _gauge("records-lag-max", "{record}", "The largest lag of an assigned partition."),
    _gauge("assigned-partitions", "{partition}", "Assigned partitions."),
    _gauge(
        "last-poll-seconds-ago", "s",
        "Time since the last get call, 0 while one waits; at `max_poll_interval_ms` a member has to leave.",
    ),
    _counter("commit-total", "{request}", "Commits that a coordinator answered."),
    _gauge("commit-latency-avg", "ms", "The average time of a commit."),
    _gauge("commit-latency-max", "ms", "The longest one."),
    _counter("rebalance-total", "{rebalance}", "Rebalances that ended with an assignment."),
    _counter("failed-rebalance-total", "{rebalance}", "Rebalances that ended without one for this member."),
    _counter("rebalance-latency-total", "ms", "The time of all rebalances that ended with an assignment."),
    _gauge("rebalance-latency-avg", "ms", "The average time from a request to join to a stable state."),
    _gauge("rebalance-latency-max", "ms", "The longest one."),
    _gauge(
        "rebalance-under-way-seconds", "s",
        "How long this member has sought its coordinator, or waited for an assignment; 0: it does not.",
    ),
    _gauge("last-rebalance-seconds-ago", "s", "Time since the last rebalance ended; -1 before the first."),
)  # fmt: skip

_REBALANCING: Final = frozenset({State.JOINING, State.ASSIGNING, State.SYNCING})


class Rebalances:
    """Times the rebalances of a member by the states that it goes through."""

    __slots__ = ("_began", "_clock", "ended_at", "failed", "took_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None
        self.took_ms = Window(clock)
        self.failed = 0
        self.ended_at: float | None = None

    @property
    def lasting_s(self) -> float:
        """How long the rebalance under way has lasted; 0 without one."""
        return 0.0 if self._began is None else self._clock.monotonic() - self._began

    def became(self, state: State) -> None:
        """The member is in this state; called at least once for each change.

        A member that releases partitions for others, or before it leaves, is still in its rebalance.
        """
        if state in _REBALANCING:
            if self._began is None:
                self._began = self._clock.monotonic()
        elif self._began is not None and state is not State.RELEASING:
            if state is State.STABLE:
                self.ended_at = self._clock.monotonic()
                self.took_ms.add((self.ended_at - self._began) * 1000)
            else:
                self.failed += 1
            self._began = None


class ConsumerMeasures:
    """The numbers of one consumer."""

    __slots__ = ("_clock", "_fetches", "committed_ms", "rebalances", "taken")

    def __init__(self, fetches: FetchMeasures, clock: Clock) -> None:
        self._clock = clock
        self._fetches = fetches
        self.taken = Window(clock)
        """Records of each batch that a get call took."""
        self.committed_ms = Window(clock)
        """Times of commits."""
        self.rebalances = Rebalances(clock)

    def read(self, assigned: Iterable[Position[FetchedBatch]], unpolled_s: float) -> dict[str, float]:
        """`unpolled_s`: the time since the last get call."""
        taken, fetched = self.taken.recent(), self._fetches.bytes.recent()
        fetches, commits = self._fetches.ms.recent(), self.committed_ms.recent()
        rebalances, ended_at = self.rebalances.took_ms.recent(), self.rebalances.ended_at
        lags = [state.lag or 0 for state in assigned]
        return {
            "records-consumed-total": self.taken.total,
            "records-consumed-rate": taken.rate,
            "bytes-consumed-total": self._fetches.bytes.total,
            "bytes-consumed-rate": fetched.rate,
            "fetch-total": self._fetches.ms.count,
            "fetch-latency-avg": fetches.average,
            "fetch-latency-max": fetches.maximum,
            "records-lag-max": max(lags, default=0),
            "assigned-partitions": len(lags),
            "last-poll-seconds-ago": unpolled_s,
            "commit-total": self.committed_ms.count,
            "commit-latency-avg": commits.average,
            "commit-latency-max": commits.maximum,
            "rebalance-total": self.rebalances.took_ms.count,
            "failed-rebalance-total": self.rebalances.failed,
            "rebalance-latency-total": self.rebalances.took_ms.total,
            "rebalance-latency-avg": rebalances.average,
            "rebalance-latency-max": rebalances.maximum,
            "rebalance-under-way-seconds": self.rebalances.lasting_s,
            "last-rebalance-seconds-ago": -1.0 if ended_at is None else self._clock.monotonic() - ended_at,
        }
