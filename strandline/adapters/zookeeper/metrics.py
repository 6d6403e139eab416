"""Metrics of the consecutive ZooKeeper sessions of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from strandline.adapters.telemetry.metrics import Sample, counter, gauge
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

SESSION_METRICS: Final = (SESSIONS_ENDED, DISCONNECTS, SET_BACK, CONNECTED, WATCHES, UNANSWERED)


class Link(Protocol):
    """The part of a session that these metrics read."""

    @property
    def state(self) -> LinkState: ...

    @property
    def watch_count(self) -> int: ...

    @property
    def unanswered_s(self) -> float: ...

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

    def begin(self, link: Link) -> None:
        """Use this session from now on."""
        self._link = link
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
