"""The Kafka ports of a broker: binds them, serves connections, and closes those that are idle or stuck."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog

from strandline.adapters.rpc import request_parsing
from strandline.adapters.rpc.refused_requests import RefusedRequests, TooManyConnections
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.adapters.system.accepting.connection_count import ConnectionCount
from strandline.adapters.telemetry.audit import Audit
from strandline.adapters.telemetry.kafka_traffic import KafkaTraffic
from strandline.adapters.tls.subject import CertificatePrincipals
from strandline.broker.kafka.connection import KafkaConnection
from strandline.broker.kafka.frame_memory import FramePools
from strandline.broker.kafka.router import Router
from strandline.broker.kafka.wire.fields import MalformedRequest
from strandline.config.security import ENCRYPTED, SASL_PLAINTEXT, SSL
from strandline.config.services.broker import BrokerSettings
from strandline.host import Arrival, BytesServer, ServiceHost
from strandline.ports import Caller, Listener
from strandline.security.login.steps import LoginRefused
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import Quota
from strandline.tasks import Slices
from strandline.vocabulary.metadata import Endpoint

logger = structlog.get_logger(__name__)

SWEEPS_PER_TIMEOUT: Final = 4
"""How often connections are looked at within the shortest of their timeouts."""
MALFORMED_KIND: Final = "Kafka"
_SETTINGS: Final = {Listener.INTERNAL: "kafka_port", Listener.EXTERNAL: "kafka_external_port"}
"""The settings that name the ports."""
DRAIN_S_MAX: Final = 1.0
"""The time for the last answers when the broker stops."""


class KafkaListener:
    """All Kafka connections of one broker. Without `kafka_port` it does nothing."""

    def __init__(
        self,
        settings: BrokerSettings,
        host: ServiceHost,
        times: RequestTimes,
        refused: RefusedRequests,
        audit: Audit,
        quotas: ClientQuotas,
        users_known: Callable[[], bool],
    ) -> None:
        """`users_known`: whether a login could succeed now."""
        self.traffic = KafkaTraffic(host.clock)
        self.router = Router(())
        self.memory = FramePools(settings.kafka_receiving_bytes_max, settings.kafka_request_bytes_max)
        self.request_bytes_max = settings.kafka_request_bytes_max
        self.requests_in_flight_max = settings.kafka_requests_in_flight_max
        self.quotas = quotas
        self._settings = settings
        self._host = host
        self._times = times
        self._refused = refused
        self._audit = audit
        self._users_known = users_known
        self._servers: dict[Listener, BytesServer] = {}
        self._connections: dict[KafkaConnection, None] = {}
        """In the order in which they came: so they are closed in an order that a simulation repeats."""
        self._open = ConnectionCount()
        self._arrived = ConnectionCount()
        """Connections that wait for their turn, or are not encrypted yet."""
        self._connections_max = settings.kafka_connections_max
        self._principals = CertificatePrincipals(settings.ssl_principal_mapping_rules)
        self._tasks: asyncio.TaskGroup | None = None
        self._requests: set[asyncio.Task[None]] = set()
        """Requests in progress that have a task."""

    # --- ports -------------------------------------------------------------------------------

    def bind(self, endpoint: Endpoint) -> Endpoint:
        """Listens. Returns the endpoint with the addresses for Kafka clients. Raises SettingsError."""
        settings = self._settings
        if settings.kafka_port is None:
            return endpoint
        port = self._listen(Listener.INTERNAL, "kafka_port", settings.kafka_port)
        host = settings.kafka_advertised_host or settings.advertised_host or settings.host
        self._check_name("kafka_port", "kafka_advertised_host", host)
        endpoint = replace(endpoint, kafka=(host, settings.kafka_advertised_port or port))
        if settings.kafka_external_port is None:
            return endpoint
        self._check_name("kafka_external_port", "kafka_external_host", settings.kafka_external_host)
        port = self._listen(Listener.EXTERNAL, "kafka_external_port", settings.kafka_external_port)
        return replace(endpoint, kafka_external=(settings.kafka_external_host, port))

    def _check_name(self, port: str, setting: str, host: str) -> None:
        certificates = self._host.certificates
        if certificates is not None and self._settings.protocol_of(port) in ENCRYPTED:
            certificates.warn_unless_named(setting, host)

    def _listen(self, listener: Listener, setting: str, port: int) -> int:
        server = self._host.bind_bytes(self._settings, setting, port)
        if self._settings.protocol_of(setting) == SASL_PLAINTEXT:
            logger.warning("logins without encryption hide passwords and protect nothing else", port=setting)
        self._servers[listener] = server
        self._connections_max = min(self._connections_max, server.connections_max)
        return server.port

    # --- serving -----------------------------------------------------------------------------

    async def run(self, router: Router) -> None:
        """Serves until it is cancelled. Raises an error that no handler expects."""
        if not self._servers:
            return
        self.router = router
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for listener in tuple(self._servers):
                    if (server := self._servers.get(listener)) is not None:
                        new = partial(KafkaConnection, self, listener)
                        await server.serve(new, tasks, partial(self._on_arrival, listener))
                await self._sweep_forever()
            finally:
                self.stop()  # a group that ends takes no more tasks

    async def drain(self) -> None:
        """Takes no more connections, and waits for the requests in progress. A broker does so after its
        last leadership: its coordinators have just refused the members that wait, and clients that get this
        answer look for the next coordinator at once."""
        self._close_servers()
        await asyncio.sleep(0)  # requests that wait without a task notice what has just ended
        if self._requests:
            await asyncio.wait(tuple(self._requests), timeout=DRAIN_S_MAX)

    def _close_servers(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    def stop(self) -> None:
        """Takes no more connections, and closes those that there are. It may come before `run`."""
        self._close_servers()
        for connection in tuple(self._connections):
            connection.close()
        self._tasks = None

    async def _sweep_forever(self) -> None:
        settings = self._settings
        shortest_ms = min(
            settings.kafka_idle_ms_max, settings.kafka_frame_ms_max, settings.kafka_write_ms_max
        )
        while True:
            await self._host.clock.sleep(shortest_ms / 1000 / SWEEPS_PER_TIMEOUT)
            self.sweep()

    def sweep(self) -> None:
        """Closes connections that for too long were idle, left answers unread, or sent half a frame."""
        now = self.now()
        idle_s, frame_s = self._settings.kafka_idle_ms_max / 1000, self._settings.kafka_frame_ms_max / 1000
        write_s = self._settings.kafka_write_ms_max / 1000
        for connection in tuple(self._connections):
            if connection.overdue(now, idle_s=idle_s, frame_s=frame_s, write_s=write_s):
                connection.abort()

    # --- for connections ---------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Open connections."""
        return len(self._connections)

    def now(self) -> float:
        return self._host.clock.monotonic()

    def slices(self) -> Slices:
        return Slices(self._host.clock)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None, "a connection outlives its listener"
        task = self._tasks.create_task(self._or_stop(work))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        return task

    async def _or_stop(self, work: Coroutine[Any, Any, None]) -> None:
        """An error that no handler expects ends the listener. A request that begins in the same turn would be
        refused by the group, and that would be reported instead."""
        try:
            await work
        except Exception:
            self.stop()
            raise

    def has_logins(self, listener: Listener) -> bool:
        return self._settings.has_logins(_SETTINGS[listener])

    def opened(self, connection: KafkaConnection) -> bool:
        address = connection.client_host
        if self._tasks is None:
            return False
        if self._is_full(connection.listener, address, self._open.total, self._open.of(address)):
            return False
        if connection.has_login and not self._users_known():
            return False  # the client connects again; a refused login would be final
        self._connections[connection] = None
        self.traffic.connections += 1
        self._open.add(address)
        return True

    def closed(self, connection: KafkaConnection) -> None:
        if connection not in self._connections:
            return
        del self._connections[connection]
        self.traffic.connections -= 1
        self._open.remove(connection.client_host)

    def _on_arrival(self, listener: Listener, address: str) -> Arrival | None:
        """Counts a connection until it is served, if there is room for it beside those that are open. It
        waits if its address makes connections faster than its quota says."""
        arrived, opened = self._arrived, self._open
        total, of_client = opened.total + arrived.total, opened.of(address) + arrived.of(address)
        if self._tasks is None or self._is_full(listener, address, total, of_client):
            return None
        turn = self.quotas.connection(address)
        if not turn.served:
            why = f"{address} makes connections faster than its quota {Quota.CONNECTION_CREATION_RATE} says"
            self._refused.note(TooManyConnections(why, port=_SETTINGS[listener]), address)
        return Arrival(arrived.one(address), turn.wait_s, turn.served)

    def _is_full(self, listener: Listener, address: str, total: int, of_client: int) -> bool:
        """Whether there are as many connections as there may be, of all addresses or of this one. Counts the
        refusal."""
        client_max = self._settings.kafka_client_connections_max
        if total >= self._connections_max:
            why = "Kafka's ports have {} connections (setting kafka_connections_max, or too few descriptors)"
            limit = self._connections_max
        elif of_client >= client_max:
            why = address + " has {} connections (setting kafka_client_connections_max)"
            limit = client_max
        else:
            return False
        error = TooManyConnections(why.format(limit), port=_SETTINGS[listener], limit=limit)
        self._refused.note(error, address)
        return True

    def with_certificate(self, caller: Caller, certificate: bytes) -> Caller:
        try:
            known = self._principals.named(caller, certificate)
        except LoginRefused as error:
            self._audit.login_refused(caller, SSL, error)
            raise
        self._audit.met(known)
        return known

    def calling(self, caller: Caller, api: str, request_id: int) -> Caller:
        """The caller, with the name of its call if there is an audit log."""
        if not self._audit.is_written:
            return caller
        return replace(caller, call=f"Kafka {api}", request_id=request_id)

    def answered(self, request: str, seconds: float) -> None:
        self._times.observe(request, seconds * 1000)

    def malformed(self, error: MalformedRequest, peer: str) -> None:
        self._refused.note(request_parsing.MalformedRequest(error.message, kind=MALFORMED_KIND), peer)
