"""Counts what Kafka clients do: requests by API and version, bytes, connections, and the clients' software.

Labels have bounds: the APIs and versions that are served, and a fixed number of names of software.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

import structlog

from strandline.adapters.telemetry.metrics import Sample, counter, gauge
from strandline.ports import Clock

logger = structlog.get_logger(__name__)

SOFTWARE_MAX: Final = 50
"""Names and versions of software that are counted apart; further ones are `other`. Clients choose them."""
SOFTWARE_LENGTH_MAX: Final = 40
LOGGED_EVERY_S: Final = 60.0
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
OTHER: Final = ("other", "")
UNNAMED: Final = "unnamed"
"""The software of a client that has not said what it is."""
UNSERVED_MAX: Final = 100
"""Pairs of an API and a software that are counted apart, of requests that are not served."""

CONNECTIONS: Final = gauge(
    "kafka_server_socketservermetrics_connection_count", "Open connections of Kafka clients."
)
BYTES_IN: Final = counter("strandline_kafka_received_bytes_total", "Bytes that Kafka clients sent.")
BYTES_OUT: Final = counter("strandline_kafka_sent_bytes_total", "Bytes of answers to Kafka clients.")
REQUESTS: Final = counter(
    "strandline_kafka_requests_total",
    "Requests of Kafka clients by API and version: those that use an old version show here.",
    "request", "version",
)  # fmt: skip
FAILED: Final = counter(
    "strandline_kafka_failed_requests_total",
    "Requests of Kafka clients whose connection was closed instead of an answer, such as refused batches "
    "with acks=0.",
    "request",
)
UNSERVED: Final = counter(
    "strandline_kafka_unserved_requests_total",
    "Requests of Kafka clients for an API, or a version of one, that is not served, by their software.",
    "request", "software",
)  # fmt: skip
CLIENTS: Final = counter(
    "strandline_kafka_clients_total",
    "Connections of Kafka clients by the software that they say they are.",
    "software", "version",
)  # fmt: skip

SESSIONS: Final = gauge(
    "kafka_server_fetchsessioncache_numincrementalfetchsessions", "Fetch sessions of Kafka clients."
)
SESSION_PARTITIONS: Final = gauge(
    "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
    "Partitions of all fetch sessions.",
)
SESSION_EVICTIONS: Final = counter(
    "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
    "Fetch sessions that ended since there was no room for them.",
)

_OF_SESSIONS: Final = (SESSIONS, SESSION_PARTITIONS, SESSION_EVICTIONS)
KAFKA_METRICS: Final = (CONNECTIONS, BYTES_IN, BYTES_OUT, REQUESTS, FAILED, UNSERVED, CLIENTS, *_OF_SESSIONS)


class KafkaTraffic:
    """The traffic of one broker's Kafka ports."""

    def __init__(self, clock: Clock) -> None:
        self.connections = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.fetch_sessions = 0
        self.fetch_session_partitions = 0
        self.fetch_session_evictions = 0
        self.requests: Counter[tuple[str, int]] = Counter()
        """By API and version."""
        self._clock = clock
        self._failed: Counter[str] = Counter()
        self._unserved: Counter[tuple[str, str]] = Counter()
        self._logged: dict[tuple[str, ...], float] = {}
        self._clients: Counter[tuple[str, str]] = Counter()

    def introduced(self, name: str, version: str) -> str:
        """A client has named its software. Returns the name by which it is counted."""
        software = (name, version)
        valid = all(len(each) <= SOFTWARE_LENGTH_MAX and _SOFTWARE.fullmatch(each) for each in software)
        if not valid or (software not in self._clients and len(self._clients) >= SOFTWARE_MAX):
            software = OTHER
        self._clients[software] += 1
        return software[0]

    def failed(self, request: str, version: int, client: str, reason: str) -> None:
        """A request gets no answer. One of each API is logged within LOGGED_EVERY_S."""
        self._failed[request] += 1
        if self._is_logged(request):
            logger.info(
                "kafka request failed",
                request=request,
                version=version,
                client=client,
                reason=reason,
                so_far=self._failed[request],
            )

    def unserved(self, request: str, software: str, client: str, reason: str) -> None:
        """A client asks for an API or a version that is not served. One request of each API and software is
        logged within LOGGED_EVERY_S. `software` is one that `introduced` returned, or UNNAMED."""
        pair = (request, software)
        if pair not in self._unserved and len(self._unserved) >= UNSERVED_MAX:
            pair = (OTHER[0], OTHER[0])
        self._unserved[pair] += 1
        if self._is_logged(*pair):
            logger.warning(
                "kafka request not served",
                request=request,
                software=software,
                client=client,
                reason=reason,
                so_far=self._unserved[pair],
            )

    def _is_logged(self, *kind: str) -> bool:
        """Whether the log is to have a line of this kind now."""
        now = self._clock.monotonic()
        if now - self._logged.get(kind, -LOGGED_EVERY_S) < LOGGED_EVERY_S:
            return False
        self._logged[kind] = now
        return True

    def read(self) -> Iterator[Sample]:
        yield CONNECTIONS.is_now(self.connections)
        yield BYTES_IN.is_now(self.bytes_in)
        yield BYTES_OUT.is_now(self.bytes_out)
        yield SESSIONS.is_now(self.fetch_sessions)
        yield SESSION_PARTITIONS.is_now(self.fetch_session_partitions)
        yield SESSION_EVICTIONS.is_now(self.fetch_session_evictions)
        for (request, version), count in self.requests.items():
            yield REQUESTS.is_now(count, request, str(version))
        for request, count in self._failed.items():
            yield FAILED.is_now(count, request)
        for (request, its_software), count in self._unserved.items():
            yield UNSERVED.is_now(count, request, its_software)
        for (software, its_version), count in self._clients.items():
            yield CLIENTS.is_now(count, software, its_version)
