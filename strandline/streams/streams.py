"""A member of a stream application: runs its share of the tasks of a topology, and learns others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from strandline.adapters.system_host import client_host
from strandline.client.metrics import ClientMetric
from strandline.client.scope import Scope, Startable
from strandline.config.load import load
from strandline.config.streams import StreamsSettings
from strandline.consumer.consumer import Consumer
from strandline.errors import InvalidRequest
from strandline.host import Host
from strandline.producer.producer import Producer
from strandline.streams.core.assignor import LearnerAssignor
from strandline.streams.core.member import Received, StreamMember
from strandline.streams.core.task import TaskId
from strandline.streams.runtime.clients import Clients
from strandline.streams.runtime.group_listener import GroupListener
from strandline.streams.runtime.internal_topics import InternalTopics
from strandline.streams.runtime.poller import Poller, Stop
from strandline.streams.runtime.queries import QueryContext, StoreQuery, find_store
from strandline.streams.runtime.reports import TaskReports
from strandline.streams.runtime.tasks.all_local import LocalTasks
from strandline.streams.runtime.tasks.cleanup import StoreCleanup
from strandline.streams.runtime.tasks.factory import TaskFactory
from strandline.streams.runtime.tasks.group_offsets import GroupOffsets
from strandline.streams.runtime.tasks.inputs import Inputs
from strandline.streams.runtime.tasks.local import LocalTask, Role, TaskContext
from strandline.streams.storage.errors import StoreCorrupt
from strandline.streams.storage.slots import StateFolder
from strandline.streams.storage.stores import OpenStores, StateStore, StateStores
from strandline.streams.topology.subtopology import Subtopology
from strandline.streams.topology.topology import Topology
from strandline.tasks import caller_is_cancelled

logger = logging.getLogger(__name__)

OFFSETS_S_MAX = 5.0
"""Limit of one commit of the group's offsets, which only affects the visible lag."""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task on this member. While it restores: the remaining records of its changelog, the records read
    each second, and the remaining time; None where unknown."""

    task: TaskId
    role: str
    """running, restoring, learning, standby or suspended."""
    lag: int | None = None
    records_per_s: float | None = None
    remaining_s: float | None = None


class Streams(Startable):
    """Runs a topology together with all other members of the same `application_id` (docs/use/streams.md).

    `bootstrap` as for a producer; `settings` are those of `StreamsSettings`. `open_stores` is for a host that
    keeps state elsewhere than on disk. Raises SettingsError and TopologyError at once for invalid arguments.
    """

    METRICS: ClassVar[tuple[ClientMetric, ...]] = tuple(
        metric._replace(of="streams", name=f"{client}.{metric.name}")
        for client, metrics in (
            ("consumer", Consumer.METRICS),
            ("outputs", Producer.METRICS),
            ("changelogs", Producer.METRICS),
        )
        for metric in metrics
    )
    """The metrics of `metrics()`."""

    def __init__(
        self,
        topology: Topology,
        bootstrap: str | Sequence[str],
        *,
        application_id: str,
        state_dir: str | Path,
        host: Host | None = None,
        open_stores: OpenStores = StateFolder.take,
        **settings: Any,
    ) -> None:
        self._settings = load(StreamsSettings, application_id=application_id, state_dir=state_dir, **settings)
        self._subtopologies = topology.build(application_id)
        host = client_host(self._settings, host)
        self._clock = host.clock
        self._threads = host.threads
        self._member: StreamMember[TaskId] = StreamMember()
        self._assignor = LearnerAssignor(
            self._member,
            {subtopology.name: subtopology.topics for subtopology in self._subtopologies},
            num_standbys=self._settings.num_standbys,
            application_server=self._settings.application_server,
            on_received=self._received,
            stateless=[s.name for s in self._subtopologies if s.changelog is None],
        )
        self._clients = Clients(bootstrap, self._assignor, self._settings, host)
        self._topics = InternalTopics(self._clients.admin, self._subtopologies, self._settings, self._clock)
        self._open_stores = open_stores
        self._stores: StateStores | None = None
        self._scope = Scope("stream application", self._failed)
        consumer = self._clients.consumer
        self._inputs = Inputs(consumer, self._settings.offset_reset)
        self._offsets = GroupOffsets(consumer, timeout_s=OFFSETS_S_MAX)
        self._reports = TaskReports(consumer, self._clock)
        self._tasks = LocalTasks(self._task_context, self._reports, self._scope)
        self._group = GroupListener(self._member, self._assignor, consumer, self._inputs, self._tasks)
        self._poller = Poller(
            consumer,
            self._inputs,
            self._offsets,
            settings=self._settings,
            clock=self._clock,
            on_stopped=self._stopped,
        )
        self._counts: dict[str, int] = {}
        """The known number of running tasks of each subtopology, on all members."""
        self._stopping = asyncio.Lock()
        self._stopped_once = False
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None

    def _task_context(self, on_closed: Callable[[TaskId], None]) -> TaskContext:
        factory = TaskFactory(
            {subtopology.name: subtopology for subtopology in self._subtopologies},
            open_store=self._open_store,
            topics=self._topics,
            inputs=self._inputs,
            outputs=self._clients.outputs,
            changelogs=self._clients.changelogs,
            transactions=self._clients.transactions,
            settings=self._settings,
            clock=self._clock,
        )
        return TaskContext(
            factory=factory,
            restorer=self._clients.restorer,
            inputs=self._inputs,
            offsets=self._offsets,
            reports=self._reports,
            settings=self._settings,
            clock=self._clock,
            on_ready=self._ready,
            on_behind=self._member.fell_behind,
            on_closed=on_closed,
        )

    # --- life cycle ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the application. Raises UnknownTopicOrPartition for a missing topic, BrokerNotAvailable and
        other errors of the start; InvalidRequest if it was stopped meanwhile."""
        await self._scope.start()
        try:
            await self._clients.start()
            await self._topics.prepare()
            self._scope.check()  # it may have been stopped meanwhile, and must leave nothing behind
            self._stores = self._open_stores(self._settings.state_dir, self._settings.application_id)
            self._scope.spawn(self._poller.run(), "records")
            interval_s = self._settings.progress_interval_ms / 1000
            self._scope.spawn(self._reports.run(self._tasks.restoring, interval_s), "reports")
            self._scope.spawn(self._cleanup(self._stores).run(), "cleanup of stores")
            topics = [topic for subtopology in self._subtopologies for topic in subtopology.topics]
            self._clients.consumer.subscribe(topics, listener=self._group)
        except BaseException as error:
            if self._ended.is_set() and not caller_is_cancelled():
                # Its clients were closed during the start: they raise all kinds of errors.
                raise InvalidRequest("this stream application was stopped while it started") from error
            await self.stop()
            raise

    async def stop(self) -> None:
        """Commit, leave the group and close; other members take the tasks over at once, learned or not.

        An earlier failure is raised by `wait`. May be called again.
        """
        async with self._stopping:
            if self._stopped_once:
                return
            try:
                try:
                    await self._leave_group()
                finally:
                    await self._scope.stop()
            except Exception as error:
                self._failure = self._failure or error
            finally:
                self._end()
                if self._stores is not None:
                    self._stores.close()
                await self._clients.stop()
            self._stopped_once = True

    async def _leave_group(self) -> None:
        try:
            await self._poller.end()
        finally:
            await self._clients.consumer.stop()

    async def leave(self) -> bool:
        """Hand all tasks over to learners, and close when nothing is left, at the latest after
        `leave_timeout_ms`. True if all tasks were handed over; False also if it is stopped meanwhile, or
        fails.

        May be called again. Cancelling the call stops the application at once. Raises InvalidRequest if it
        was never started.
        """
        if not self._ended.is_set() and self._scope.error() is None:
            self._scope.check()
            self._group.leave()
        try:
            async with asyncio.timeout(self._settings.leave_timeout_ms / 1000):
                await self._group.over.wait()
        except TimeoutError:
            logger.warning("leaves with tasks that no member has learned: they are restored elsewhere")
        finally:
            await self.stop()
        return self._group.handed_over

    async def wait(self) -> None:
        """Return once it was stopped. Raises its failure."""
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    def _cleanup(self, stores: StateStores) -> StoreCleanup:
        return StoreCleanup(
            stores,
            lambda task: self._tasks.find(task) is not None,
            delay_s=self._settings.state_cleanup_delay_ms / 1000,
            clock=self._clock,
            threads=self._threads,
        )

    def _open_store(self, task: TaskId, identity: str) -> StateStore:
        assert self._stores is not None
        return self._stores.open(task, identity)

    def _failed(self, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        logger.error("the stream application failed", exc_info=error)
        self._failure = error
        self._end()

    def _end(self) -> None:
        self._group.over.set()
        self._ended.set()

    def _received(self, received: Received[TaskId]) -> None:
        counts: dict[str, int] = {}
        for subtopology, partition in self._assignor.owners:
            counts[subtopology] = max(counts.get(subtopology, 0), partition + 1)
        self._counts = counts
        self._group.received(received)

    def _ready(self, task: TaskId) -> None:
        self._group.ready(task)

    def _stopped(self, task: TaskId, error: Stop) -> None:
        logger.warning("task %s restores: %s", task, error)
        self._tasks.abandon(task, damaged=isinstance(error, StoreCorrupt))

    # --- inspection ---------------------------------------------------------------------------------

    def tasks(self) -> list[TaskStatus]:
        """The tasks on this member, ordered by name."""
        return [_status(local) for local in sorted(self._tasks, key=lambda local: local.task)]

    def metrics(self) -> dict[str, float]:
        """What its consumer and its two producers measure: `consumer.records-lag-max`. From any thread."""
        return {
            f"{name}.{metric}": value
            for name, client in self._clients.measured.items()
            for metric, value in client.metrics().items()
        }

    def store(self, name: str) -> StoreQuery[Any, Any]:
        """A query for a store of the tasks that run here. Raises LookupError for an unknown store."""
        store, subtopology = find_store(self._subtopologies, name)
        return StoreQuery(
            store,
            subtopology,
            QueryContext(
                stores=self._running_stores,
                owners=lambda: self._assignor.owners,
                servers=lambda: self._assignor.servers,
                count=self._count,
                on_damaged=self._stopped,
            ),
        )

    def _count(self, subtopology: Subtopology) -> int:
        return max(self._topics.partitions(subtopology.topics), self._counts.get(subtopology.name, 0))

    def _running_stores(self, subtopology: str) -> Mapping[TaskId, StateStore]:
        return {
            local.task: local.store
            for local in self._tasks
            if local.role is Role.RUNNING
            and local.task.subtopology == subtopology
            and local.store is not None
        }


def _status(local: LocalTask) -> TaskStatus:
    restoration = local.restoration
    if restoration is None:
        return TaskStatus(local.task, local.role.value)
    return TaskStatus(
        local.task, local.role.value, restoration.lag, restoration.records_per_s, restoration.remaining_s
    )
