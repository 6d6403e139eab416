"""Runs a broker process: its listener, its data folder, and one ZooKeeper session after another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from functools import partial

import structlog

from strandline.adapters.framed.port import FramedPort
from strandline.adapters.logins import Logins
from strandline.adapters.rpc.logins.at_ports import PortLogins
from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.rpc.refused_requests import RefusedRequests
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.adapters.system.crash_points import arm
from strandline.adapters.telemetry.audit import Audit
from strandline.adapters.telemetry.metrics_server import serve_metrics
from strandline.adapters.token_keys import token_keys
from strandline.adapters.zookeeper.metrics import Sessions
from strandline.broker.events.replica_events import EventRecorder
from strandline.broker.groups.groups import Groups
from strandline.broker.groups.server import group_rows
from strandline.broker.kafka.apis import kafka_router
from strandline.broker.kafka.listener import KafkaListener
from strandline.broker.kafka.router import Router
from strandline.broker.log.handlers import Handlers
from strandline.broker.log.producer_ids import ProducerIds
from strandline.broker.log.server import log_rows
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.metadata.controller import ADMIN_TIMEOUT_MS, controller_link
from strandline.broker.metadata.internal_topics import InternalTopics
from strandline.broker.metrics import METRICS, BrokerMetrics
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.upkeep.compaction_task import compact_logs
from strandline.broker.replicas.upkeep.retention import apply_retention, flush_aged
from strandline.broker.replication.handlers import Followers
from strandline.broker.replication.server import ReplicationService
from strandline.broker.replication.stream import ReplicaStreams
from strandline.broker.session import BrokerSession, SessionOver
from strandline.broker.state_changes.recorder import StateChangeRecorder
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.broker.transactions.log_markers import LogMarkers
from strandline.broker.transactions.server import member_rows, transaction_rows
from strandline.broker.transactions.transactions import Transactions
from strandline.config.services.broker import BrokerSettings
from strandline.errors import SettingsError
from strandline.host import CoordinationSession, ServiceHost
from strandline.ids import BrokerId, TopicPartition
from strandline.ports import Transport
from strandline.security.access import Access
from strandline.security.authorizer import Authorizer
from strandline.security.login.authenticator import Authenticator
from strandline.security.quotas.bill import ClientQuotas
from strandline.serving.refusals import refusals_noted
from strandline.serving.serve import Serving
from strandline.standing_warnings import warn_while_unsafe
from strandline.tasks import contained
from strandline.vocabulary.configs.groups import KnownGroupConfigs
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.transactions import Marker

logger = structlog.get_logger(__name__)

NewSession = Callable[[CoordinationSession], BrokerSession]
"""Makes the broker's part of a session that ZooKeeper has granted."""

SERVICES = (
    "strandline.v1.Log", "strandline.v1.Replication", "strandline.v1.Groups", "strandline.v1.Transactions",
)  # fmt: skip


def _settings_error(group: BaseExceptionGroup[BaseException]) -> SettingsError | None:
    """The settings error in a tree of exceptions, if there is one; a user needs only its message."""
    for error in group.exceptions:
        found = _settings_error(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, SettingsError):
            return found
    return None


class Broker:
    """One broker process.

    A bug in any task ends the process at once: see `strandline.adapters.system.fail_fast`.
    """

    def __init__(self, settings: BrokerSettings, host: ServiceHost) -> None:
        self._settings = settings
        self._host = host
        self._clock = host.clock
        self._stop = host.stop_requested
        self._fail_fast = host.fail_fast(self._withdraw)
        self._coordination: CoordinationSession | None = None
        self._session: BrokerSession | None = None
        self.manager: ReplicaManager | None = None
        """The replicas of this process, once it has opened its data folder. For those who look on."""
        self.transactions: Transactions | None = None
        """The same for the coordinators of transactions that it runs."""
        self._sessions = Sessions()
        self._key = MemberKey(host.new_id)
        self._audit = Audit(settings.audit_log, host.clock)
        authorizer = Authorizer(settings.authorization_rules(), self._audit.decided)
        self._audit.explained_by(authorizer)
        self.access = Access(
            authorizer, self._key.is_shown, on_denied=self._audit.denied, on_changed=self._audit.changed_here
        )
        """Decides what callers may do."""
        authenticator = Authenticator(
            settings.mechanisms,
            self._key.secret,
            authorizer.withholds,
            token_keys(settings, host.clock),
        )
        self._logins = Logins(authenticator, host.clock, host.threads, host.new_id, self._audit)
        self._quotas = ClientQuotas(
            self.access.is_member, host.clock.monotonic, delay_ms_max=settings.quota_delay_ms_max
        )
        self._group_configs = KnownGroupConfigs()
        self._times = RequestTimes(host.clock)
        self._refused = RefusedRequests(host.clock)
        self._listener = host.listen(
            settings,
            SERVICES,
            on_answered=self._times.observe,
            on_refused=refusals_noted(self._refused.note, self._audit),
        )
        self._kafka = KafkaListener(
            settings,
            host,
            self._times,
            self._refused,
            self._audit,
            self._quotas,
            lambda: authenticator.knows_users,
        )
        self._framed = FramedPort(
            settings, host, refusals_noted(self._refused.note, self._audit), self.access.member_refusal
        )

    async def run(self) -> None:
        """Serves in one session after another until the host asks for a stop. Raises SettingsError."""
        arm(self._settings.crash_points, self._host.die)
        self._fail_fast.install(asyncio.get_running_loop())
        async with AsyncExitStack() as stack:
            stack.callback(self._audit.close)
            folder = self._open_folder()
            stack.callback(folder.close)
            manager = ReplicaManager(self._settings, folder, self._host)
            self.manager = manager
            view = ClusterView(manager, self._settings, self._clock)
            producer_ids = ProducerIds(
                lambda: None if manager.session is None else manager.session.coordination,
                self._host.random,
            )
            log = Handlers(
                manager, view, self._settings, self._clock, self._holds_lease, producer_ids, self.access
            )
            followers = Followers(manager, view, self._settings, self._clock)
            await self._logins.prepare()
            endpoint = self._bind()
            stack.callback(self._kafka.stop)
            stack.callback(self._framed.stop)
            transport = self._host.transport(self._key.shown)
            stack.push_async_callback(transport.close)
            controller = controller_link(view, transport, self._clock)
            topics = InternalTopics(manager, view, controller)
            groups, transactions = self._coordinators(
                manager, view, topics, log, producer_ids, endpoint, transport
            )
            await stack.enter_async_context(groups)
            self.transactions = transactions
            recorder = await stack.enter_async_context(
                StateChangeRecorder(manager, topics, endpoint, self._settings, self._key)
            )
            metrics = BrokerMetrics(
                manager,
                groups,
                transactions,
                (groups.events, recorder.events),
                self._times,
                self._refused,
                self._kafka.traffic,
                self._audit,
                self._sessions,
                self._lease_s,
                followers.throttle,
                self._quotas,
            )
            await stack.enter_async_context(self._serve_metrics(metrics))
            await self._start_listener(log, groups, transactions, followers)
            stack.push_async_callback(self._listener.stop)
            router = self._kafka_router(log, groups, transactions, manager, view, transport, endpoint)
            new_session = self._new_session(manager, endpoint, recorder, transport)
            await self._live(manager, view, groups, transactions, recorder, router, new_session)
            await self._listener.stop()
            manager.close(clean=True)
            logger.info("stopped", broker=self._settings.broker_id)

    def _coordinators(
        self,
        manager: ReplicaManager,
        view: ClusterView,
        topics: InternalTopics,
        log: Handlers,
        producer_ids: ProducerIds,
        endpoint: Endpoint,
        transport: Transport,
    ) -> tuple[Groups, Transactions]:
        """Those of groups and those of transactions, which know each other."""

        def marked(leadership: Leadership, marker: Marker) -> None:
            groups.marked(leadership, marker)

        async def place(group: str) -> TopicPartition:
            return await groups.handlers.place(group)

        transactions = Transactions(
            manager,
            view,
            topics,
            LogMarkers(log.replica, marked),
            place,
            producer_ids.new,
            self._settings,
            self._holds_lease,
            transport,
            self.access,
        )
        groups = Groups(
            manager,
            view,
            topics,
            endpoint,
            self._settings,
            self._holds_lease,
            self._key,
            self.access,
            transactions.admission,
            self._group_configs,
        )
        return groups, transactions

    def _kafka_router(
        self,
        log: Handlers,
        groups: Groups,
        transactions: Transactions,
        manager: ReplicaManager,
        view: ClusterView,
        transport: Transport,
        endpoint: Endpoint,
    ) -> Router:
        return kafka_router(
            log,
            groups.handlers,
            transactions,
            manager,
            view,
            controller_link(view, transport, self._clock, timeout_ms=ADMIN_TIMEOUT_MS),
            self._settings,
            endpoint,
            self._logins,
            self._kafka.traffic,
        )

    def _serve_metrics(self, metrics: BrokerMetrics) -> AbstractAsyncContextManager[object]:
        settings, tls = self._settings, self._host.metrics_tls
        return serve_metrics(
            settings, METRICS, metrics.read, lambda: self._listener.serving, self._clock, tls
        )

    async def _start_listener(
        self, log: Handlers, groups: Groups, transactions: Transactions, followers: Followers
    ) -> None:
        members = Serving(self.access, self._audit, self._clock)
        replication = ReplicationService(followers, self.access, self._clock)
        of_members = member_rows(transactions.handlers, transactions.writes)
        internal = members.served([*replication.rows(), *of_members])
        settings, rights = self._settings, transactions.rights
        clients = replace(members, quotas=self._quotas)
        served = clients.served(
            [
                *log_rows(log, settings, self._times, self._clock, self._key, self._quotas, rights),
                *group_rows(groups.handlers),
                *transaction_rows(transactions.handlers, transactions.logs),
            ]
        )
        logins = PortLogins(self._logins, self._key.is_shown, self._settings, self._clock, self._host.new_id)
        self._framed.offer(internal, logins)
        await self._listener.start(served, internal=internal, logins=logins)

    def _open_folder(self) -> DataFolder:
        settings = self._settings
        return DataFolder(
            settings.data_dir, BrokerId(settings.broker_id), settings.boot_id_file, self._host.files
        )

    async def _live(
        self,
        manager: ReplicaManager,
        view: ClusterView,
        groups: Groups,
        transactions: Transactions,
        recorder: StateChangeRecorder,
        kafka: Router,
        new_session: NewSession,
    ) -> None:
        """Runs all tasks of this process until it is asked to stop. Raises SettingsError."""
        try:
            async with asyncio.TaskGroup() as tasks:
                housekeeping = [
                    tasks.create_task(task)
                    for task in (
                        manager.checkpoint_watermarks(),
                        manager.pulse.run(),
                        apply_retention(manager),
                        flush_aged(manager),
                        compact_logs(manager),
                        groups.run(),
                        transactions.run(),
                        self._kafka.run(kafka),
                        self._framed.run(),
                        warn_while_unsafe(self._settings, self._clock),
                        self._audit.run(),
                    )
                ]
                await self._serve_sessions(view, new_session)
                await self._kafka.drain()
                self._kafka.stop()
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
        """Seconds for which the session certainly lives on; 0 without one."""
        return 0.0 if self._session is None else self._session.registration.lease_s

    def _bind(self) -> Endpoint:
        """Listens, and returns the address for other brokers. Raises SettingsError."""
        endpoint = self._listener.bind(self._settings.broker_id, self._settings.rack)
        endpoint = self._framed.bind(self._kafka.bind(endpoint))
        logger.info(
            "listening",
            broker=endpoint.id,
            address=endpoint.address,
            replication=endpoint.replication,
            kafka=endpoint.kafka,
        )
        return endpoint

    # --- sessions ----------------------------------------------------------------------------

    def _new_session(
        self, manager: ReplicaManager, endpoint: Endpoint, recorder: EventRecorder, transport: Transport
    ) -> NewSession:
        key = self._key.shown
        streams = ReplicaStreams(
            partial(self._host.transport, key),
            self._host.member_streams,
            key,
            self._host.clock.monotonic,
        )
        return partial(
            BrokerSession,
            manager,
            endpoint=endpoint,
            open_stream=streams.open,
            recorder=recorder,
            key=self._key,
            authorizer=self.access.authorizer,
            authenticator=self._logins.authenticator,
            quotas=self._quotas,
            group_configs=self._group_configs,
            transport=transport,
        )

    async def _serve_sessions(self, view: ClusterView, new_session: NewSession) -> None:
        while not self._stop.is_set():
            coordination = await self._connect()
            if coordination is None:
                return
            session = new_session(coordination)
            self._session, self._coordination = session, coordination
            self._sessions.begin(coordination)
            serving = asyncio.Event()

            def on_serving(session: BrokerSession = session, serving: asyncio.Event = serving) -> None:
                view.cluster_id = session.cluster_id
                serving.set()

            try:
                await contained(self._serve(session, on_serving, serving))
            except* SessionOver:
                await self._listener.set_health(serving=False)
            finally:
                self._session = None
                self._sessions.leave()
                await coordination.close()
                self._coordination = None
            if session.was_set_back:
                self._sessions.set_back += 1
                await self._let_others_notice()

    async def _serve(
        self, session: BrokerSession, on_serving: Callable[[], None], serving: asyncio.Event
    ) -> None:
        """Serves in this session to its end. Raises SessionOver, in a group."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._announce(serving))
            stopping = tasks.create_task(self._shut_down(session))
            await session.run(on_serving=on_serving)
            stopping.cancel()
            raise SessionOver

    async def _let_others_notice(self) -> None:
        """Waits for a session timeout: a broker that knows the state that ZooKeeper has lost may still lead
        by it, with in-sync replicas that ZooKeeper does not know."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.zookeeper_session_timeout_ms / 1000):
                await self._stop.wait()

    async def _announce(self, serving: asyncio.Event) -> None:
        await serving.wait()
        await self._listener.set_health(serving=True)
        logger.info("serving", broker=self._settings.broker_id)

    async def _shut_down(self, session: BrokerSession) -> None:
        """When the host asks for a stop, hands leadership over first, and then ends the session."""
        await self._stop.wait()
        logger.info("shutting down", broker=self._settings.broker_id)
        await self._listener.set_health(serving=False)
        await session.shut_down()
        raise SessionOver

    async def _connect(self) -> CoordinationSession | None:
        """Waits for a session as long as ZooKeeper needs; None if the broker is stopped meanwhile."""

        def waiting(seconds: float) -> None:
            logger.warning(
                "waiting for ZooKeeper", zookeeper=self._settings.zookeeper, seconds=round(seconds, 1)
            )

        async with asyncio.TaskGroup() as tasks:
            connecting = tasks.create_task(self._host.connect_coordination(self._settings, waiting))
            parts = (connecting, tasks.create_task(self._stop.wait()))
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in parts:
                part.cancel()
        return None if connecting.cancelled() else connecting.result()
