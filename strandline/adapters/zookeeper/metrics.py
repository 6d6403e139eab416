"""Metrics of the consecutive ZooKeeper sessions of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from strandline.adapters.telemetry.metrics import Sample, counter, gauge
from strandline.adapters.zookeeper.requests.counts import RequestCounts
from strandline.ports import LinkState

SESSIONS_ENDED: Final = counter(
    "kafka_server_sessionexpirelistener_zookeeperexpires_total",
    "ZooKeeper sessions that ended while this process ran: a broker lost all its leaderships each time.",
)
DISCONNECTS: Final = counter(
    "kafka_server_sessionexpirelistener_zookeeperdisconnects_total",
    "Connections to ZooKeeper that were lost.",
)
SET_BACK: Final = counter(
    "strandline_zookeeper_set_back_total",
    "How often ZooKeeper was found to hold an older state than this process had seen.",
)
CONNECTED: Final = gauge(
    "strandline_zookeeper_connected", "1 while this process has a session and is connected, else 0."
)
WATCHES: Final = gauge(
    "strandline_zookeeper_watches",
    "Watches that this process holds in ZooKeeper; a broker more than 4, or a controller more than 8, is a "
    "defect.",
)
UNANSWERED: Final = gauge(
    "strandline_zookeeper_unanswered_seconds",
    "How long the oldest request of this process to ZooKeeper has waited for its answer; 0: none waits.",
)
REQUESTS: Final = counter(
    "strandline_zookeeper_requests_total",
    "Requests to ZooKeeper in the sessions of this process, by kind.",
    "operation",
)
OPERATIONS: Final = counter(
    "strandline_zookeeper_operations_total",
    "Operations in these requests: the writes of a multi, the znodes of a read.",
    "operation",
)

SESSION_METRICS: Final = (
    SESSIONS_ENDED, DISCONNECTS, SET_BACK, CONNECTED, WATCHES, UNANSWERED, REQUESTS, OPERATIONS,
)  # fmt: skip


class Link(Protocol):
    """The part of a session that these metrics read."""

    @property
    def state(self) -> LinkState: ...

    @property
    def watch_count(self) -> int: ...

    @property
    def unanswered_s(self) -> float: ...

    @property
    def requests(self) -> Mapping[str, tuple[int, int]]: ...

    def on_state(self, listener: Callable[[LinkState], None]) -> None: ...


class Sessions:
    """Counts the sessions of one process."""

    def __init__(self) -> None:
        self.ended = 0
        """Sessions that this process did not end itself."""
        self.disconnects = 0
        self.set_back = 0
        """How often ZooKeeper was older than what this process had seen."""
        self._link: Link | None = None
        self._requests: Mapping[str, tuple[int, int]] = {}
        """Those of the newest session."""
        self._requests_before = RequestCounts()
        """Those of all sessions before it."""

    def begin(self, link: Link) -> None:
        """Use this session from now on."""
        self._link = link
        self._requests_before.add(self._requests)
        self._requests = link.requests
        link.on_state(self._changed)

    def leave(self) -> None:
        """Note that this process is about to end the session itself."""
        self._link = None

    def _changed(self, state: LinkState) -> None:
        if self._link is not None:
            self.disconnects += state is LinkState.SUSPENDED
            self.ended += state is LinkState.ENDED

    def read(self) -> Iterator[Sample]:
        link = self._link
        yield SESSIONS_ENDED.is_now(self.ended)
        yield DISCONNECTS.is_now(self.disconnects)
        yield SET_BACK.is_now(self.set_back)
        yield CONNECTED.is_now(link is not None and link.state is LinkState.CONNECTED)
        yield WATCHES.is_now(0 if link is None else link.watch_count)
        yield UNANSWERED.is_now(0 if link is None else link.unanswered_s)
        requests = RequestCounts()
        requests.add(self._requests_before.counted)
        requests.add(self._requests)
        for operation, (sent, operations) in requests.counted.items():
            yield REQUESTS.is_now(sent, operation)
            yield OPERATIONS.is_now(operations, operation)
