"""A broker process: one gRPC server, one data folder, and one ZooKeeper session after the other."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from random import SystemRandom

import grpc
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health

from strandline.adapters.rpc.guarded_calls import GuardedCalls
from strandline.adapters.rpc.listeners import external_server, new_server
from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.rpc.refused_requests import RefusedRequests
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system.crash_points import arm
from strandline.adapters.system.fail_fast import FailFast
from strandline.adapters.telemetry.metrics_server import serve_metrics
from strandline.adapters.zookeeper import session as zookeeper
from strandline.adapters.zookeeper.metrics import Sessions
from strandline.broker.events.replica_events import Recorder
from strandline.broker.groups.groups import Groups
from strandline.broker.groups.server import add_group_service
from strandline.broker.log.handlers import Handlers
from strandline.broker.log.producer_ids import ProducerIds
from strandline.broker.log.server import LogService, add_log_service
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.metadata.internal_topics import InternalTopics
from strandline.broker.metrics import METRICS, BrokerMetrics
from strandline.broker.replicas.compaction_task import compact_logs
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.retention import apply_retention, flush_aged
from strandline.broker.replication.handlers import Followers
from strandline.broker.replication.server import ReplicationService, add_replication_service
from strandline.broker.replication.stream import open_replica_stream
from strandline.broker.session import BrokerSession, SessionOver
from strandline.broker.state_changes.recorder import StateChangeRecorder
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.config import BrokerSettings
from strandline.errors import SettingsError
from strandline.ids import BrokerId
from strandline.tasks import group_caught
from strandline.vocabulary.metadata import Endpoint

logger = structlog.get_logger(__name__)

HEALTH_NAMES = ("", "strandline.v1.Log", "strandline.v1.Replication", "strandline.v1.Groups")
"""What the health service answers for: the broker as a whole, and each service; they fare alike."""


class _Either(Exception):
    """One of two things that were waited for has come."""


def _settings_error(group: BaseExceptionGroup[BaseException]) -> SettingsError | None:
    """The settings error in a tree of exceptions, if there is one: it says all that a user needs."""
    for error in group.exceptions:
        found = _settings_error(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, SettingsError):
            return found
    return None


class Broker:
    """Runs until it is told to stop. Raises SettingsError if it may not go on.

    A defect, anywhere in the process, ends it at once: see `strandline.adapters.system.fail_fast`.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        arm(settings.crash_points)
        self._settings = settings
        self._clock = SystemClock()
        self._stop = asyncio.Event()
        self._fail_fast = FailFast(self._withdraw)
        self._coordination: zookeeper.ZooKeeperSession | None = None
        self._session: BrokerSession | None = None
        self._sessions = Sessions()
        self._health = health.HealthServicer()
        self._times = RequestTimes(self._clock)
        self._key = MemberKey()
        self._refused = RefusedRequests(self._clock)
        self._interceptors = (GuardedCalls(), self._refused, self._times)

    async def run(self) -> None:
        """Open the folder, listen, and serve in one session after the other."""
        self._fail_fast.install(asyncio.get_running_loop())
        async with AsyncExitStack() as stack:
            folder = DataFolder(
                self._settings.data_dir, BrokerId(self._settings.broker_id), self._settings.boot_id_file
            )
            stack.callback(folder.close)
            manager = ReplicaManager(self._settings, folder, self._clock)
            view = ClusterView(manager, self._settings, self._clock)
            producer_ids = ProducerIds(
                lambda: None if manager.session is None else manager.session.coordination, SystemRandom()
            )
            handlers = Handlers(manager, view, self._settings, self._clock, self._holds_lease, producer_ids)
            followers = Followers(manager, view, self._settings, self._clock)
            servers, endpoint = self._bind()
            transport = GrpcTransport(self._key)
            stack.push_async_callback(transport.close)
            topics = InternalTopics(manager, view, transport)
            groups = await stack.enter_async_context(
                Groups(
                    manager, view, topics, endpoint, self._settings, self._clock, self._holds_lease, self._key
                )
            )
            recorder = await stack.enter_async_context(
                StateChangeRecorder(manager, topics, endpoint, self._settings, self._clock, self._key)
            )
            metrics = BrokerMetrics(
                manager,
                groups,
                (groups.events, recorder.events),
                self._times,
                self._refused,
                self._sessions,
                self._lease_s,
                followers.throttle,
            )
            await stack.enter_async_context(
                serve_metrics(
                    self._settings.host, self._settings.metrics_port, METRICS, metrics.read, self._clock
                )
            )
            for number, server in enumerate(servers):
                self._add_client_services(server, handlers, groups)
                if number == 0:  # the external listener is for clients only
                    add_replication_service(server, ReplicationService(followers, self._clock))
            await self._set_health(serving=False)
            for server in servers:
                await server.start()
                stack.push_async_callback(server.stop, None)
            loop = asyncio.get_running_loop()
            for signum in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(signum, self._stop.set)
            await self._live(manager, view, endpoint, groups, recorder)
            for server in servers:
                await server.stop(None)
            manager.close(clean=True)
            logger.info("stopped", broker=self._settings.broker_id)

    async def _live(
        self,
        manager: ReplicaManager,
        view: ClusterView,
        endpoint: Endpoint,
        groups: Groups,
        recorder: StateChangeRecorder,
    ) -> None:
        """All tasks of this process, until it is asked to stop. Raises SettingsError."""
        try:
            async with asyncio.TaskGroup() as tasks:
                housekeeping = [
                    tasks.create_task(task)
                    for task in (
                        manager.checkpoint_watermarks(),
                        apply_retention(manager),
                        flush_aged(manager),
                        compact_logs(manager),
                        groups.run(),
                    )
                ]
                await self._serve_sessions(manager, view, endpoint, recorder)
                await groups.flush()
                await recorder.flush()
                for task in housekeeping:
                    task.cancel()
        except BaseExceptionGroup as group:
            if (refused := _settings_error(group)) is not None:
                raise refused from None
            self._fail_fast.end(group, "a task of the broker")

    def _withdraw(self) -> None:
        if self._coordination is not None:
            self._coordination.close_now()

    def _holds_lease(self) -> bool:
        return self._session is not None and self._session.registration.holds_lease()

    def _lease_s(self) -> float:
        """How long the session surely lives on; 0 without one."""
        return 0.0 if self._session is None else self._session.registration.lease_s

    def _bind(self) -> tuple[list[grpc.aio.Server], Endpoint]:
        """A server a listener, not serving yet, and where others will reach them. Raises SettingsError."""
        settings = self._settings
        server = new_server(settings, self._interceptors)
        try:
            port = server.add_insecure_port(f"{settings.host}:{settings.port}")
        except RuntimeError as error:
            raise SettingsError(
                f"setting port = {settings.port}: cannot listen on {settings.host}:{settings.port} "
                "(set STRANDLINE_PORT)"
            ) from error
        logger.info("listening", broker=settings.broker_id, host=settings.host, port=port)
        advertised = settings.advertised_host or settings.host
        endpoint = Endpoint(settings.broker_id, advertised, settings.advertised_port or port, settings.rack)
        if settings.external_port is None:
            return [server], endpoint
        outer, external = external_server(
            settings, settings.host, settings.external_port, settings.external_host, self._interceptors
        )
        return [server, outer], replace(endpoint, external=external)

    def _add_client_services(self, server: grpc.aio.Server, handlers: Handlers, groups: Groups) -> None:
        log = LogService(handlers, self._settings, self._times, self._clock, self._key)
        add_log_service(server, log)
        add_group_service(server, groups.handlers, self._refused)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)

    async def _set_health(self, *, serving: bool) -> None:
        status = (
            health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        )
        for name in HEALTH_NAMES:
            await self._health.set(name, status)

    # --- sessions ----------------------------------------------------------------------------

    async def _serve_sessions(
        self, manager: ReplicaManager, view: ClusterView, endpoint: Endpoint, recorder: Recorder
    ) -> None:
        while not self._stop.is_set():
            coordination = await self._connect()
            if coordination is None:
                return
            session = BrokerSession(
                manager,
                coordination,
                endpoint,
                open_replica_stream,
                recorder,
                self._key,
            )
            self._session, self._coordination = session, coordination
            self._sessions.begin(coordination)
            serving = asyncio.Event()

            def on_serving(session: BrokerSession = session, serving: asyncio.Event = serving) -> None:
                view.cluster_id = session.cluster_id
                serving.set()

            try:
                with group_caught():
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._announce(serving))
                        stopping = tasks.create_task(self._shut_down(session))
                        await session.run(on_serving=on_serving)
                        stopping.cancel()
                        raise SessionOver
            except* SessionOver:
                await self._set_health(serving=False)
            finally:
                self._session = None
                self._sessions.leave()
                await coordination.close()
                self._coordination = None

    async def _announce(self, serving: asyncio.Event) -> None:
        await serving.wait()
        await self._set_health(serving=True)
        logger.info("serving", broker=self._settings.broker_id)

    async def _shut_down(self, session: BrokerSession) -> None:
        """On SIGTERM: leadership away first, then the session."""
        await self._stop.wait()
        logger.info("shutting down", broker=self._settings.broker_id)
        await self._set_health(serving=False)
        await session.shut_down()
        raise SessionOver

    async def _connect(self) -> zookeeper.ZooKeeperSession | None:
        """A session, however long ZooKeeper takes; None if told to stop meanwhile."""

        def waiting(seconds: float) -> None:
            logger.warning(
                "waiting for ZooKeeper", zookeeper=self._settings.zookeeper, seconds=round(seconds, 1)
            )

        connected: list[zookeeper.ZooKeeperSession] = []

        async def connect() -> None:
            connected.append(await zookeeper.connect(self._settings, on_waiting=waiting))
            raise _Either

        async def stop() -> None:
            await self._stop.wait()
            raise _Either

        try:
            with group_caught():
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(connect())
                    tasks.create_task(stop())
        except* _Either:
            pass
        return connected[0] if connected else None
