"""Counts and logs malformed requests, and calls and connections beyond their bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import structlog

from strandline.adapters.rpc.request_parsing import MalformedRequest
from strandline.adapters.rpc.server.held_calls import TooManyCalls
from strandline.adapters.telemetry.metrics import Sample, counter
from strandline.errors import StrandlineError, ThrottlingQuotaExceeded
from strandline.ports import Clock

logger = structlog.get_logger(__name__)

LOGGED_EVERY_S: Final = 60.0

MALFORMED: Final = counter(
    "strandline_malformed_requests_total",
    "Requests of each kind that could not be parsed, or had more elements than one may have.",
    "request",
)

TOO_MANY: Final = counter(
    "strandline_refused_calls_total", "Calls refused because their address had client_calls_max open."
)

CONNECTIONS: Final = counter(
    "strandline_refused_connections_total",
    "Connections that were closed because their port, or their address at it, had too many, or because their "
    "address made them too fast for its quota. Those of gRPC are not counted.",
    "port",
)


class TooManyConnections(ThrottlingQuotaExceeded):
    """A port, or an address at it, has as many connections as it may have, or the address makes them too
    fast."""

    def __init__(self, message: str, *, port: str, limit: int | None = None) -> None:
        """`port` is named by its setting."""
        super().__init__(message, limit=limit)
        self.port = port


class RefusedRequests:
    """Those of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._too_many = 0
        self._connections: Counter[str] = Counter()
        self._logged: dict[str, float] = {}

    def note(self, error: StrandlineError, peer: str) -> None:
        """Count a malformed request, or a call or connection too many, and log it unless one of its kind was
        logged within LOGGED_EVERY_S."""
        if isinstance(error, TooManyCalls):
            self._too_many += 1
            if self._is_logged(""):
                logger.warning("too many calls", reason=error.message, so_far=self._too_many)
            return
        if isinstance(error, TooManyConnections):
            self._connections[error.port] += 1
            if self._is_logged(error.port):
                so_far = self._connections[error.port]
                logger.warning("too many connections", peer=peer, reason=error.message, so_far=so_far)
            return
        if not isinstance(error, MalformedRequest):
            return
        self._counts[error.kind] += 1
        if self._is_logged(error.kind):
            logger.warning(
                "malformed request",
                request=error.kind,
                peer=peer,
                reason=error.message,
                so_far=self._counts[error.kind],
            )

    def read(self) -> Sequence[Sample]:
        malformed = [MALFORMED.is_now(count, kind) for kind, count in self._counts.items()]
        connections = [CONNECTIONS.is_now(count, port) for port, count in self._connections.items()]
        return [*malformed, *connections, TOO_MANY.is_now(self._too_many)]

    def _is_logged(self, kind: str) -> bool:
        """Whether the log is to have a line of this kind now. "": of a call too many; the setting of a port:
        of a connection too many."""
        now = self._clock.monotonic()
        if now - self._logged.get(kind, -LOGGED_EVERY_S) < LOGGED_EVERY_S:
            return False
        self._logged[kind] = now
        return True
