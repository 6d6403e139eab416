"""One task on this member, whatever it is here: it runs, it is learned, it stands by, it waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from strandline.client.retry import retry
from strandline.config import StreamsSettings
from strandline.errors import InvalidRequest, StrandlineError, UnexpectedOffset
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.streams.core.task import TaskId
from strandline.streams.restore.restoration import Restoration
from strandline.streams.restore.restorer import Restorer
from strandline.streams.runtime.reports import TaskReports
from strandline.streams.runtime.tasks.active import ActiveTask
from strandline.streams.runtime.tasks.factory import TaskFactory
from strandline.streams.runtime.tasks.group_offsets import GroupOffsets
from strandline.streams.runtime.tasks.inputs import Inputs
from strandline.streams.storage.errors import StoreCorrupt
from strandline.streams.storage.task_store import TaskStore
from strandline.vocabulary.groups import TaskChangeKind

logger = logging.getLogger(__name__)

T = TypeVar("T")

SLACK_RECORDS: Final = 1_000
"""One that was ready has fallen behind past twice the acceptable lag and so many records more."""


class Role(Enum):
    """What a task is here now."""

    RUNNING = "running"
    RESTORING = "restoring"
    """It will run; its state is being restored to the end."""
    LEARNING = "learning"
    STANDBY = "standby"
    SUSPENDED = "suspended"
    """Given up for a moment, its store open."""


class Wanted(Enum):
    """What it is to be."""

    RUN = "run"
    LEARN = "learn"
    STAND_BY = "stand by"
    SUSPEND = "suspend"
    CLOSE = "close"


class _Changed(Exception):
    """Something else is wanted now."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all tasks of a member share. `on_ready` and `on_behind` hear of learners and standbys."""

    factory: TaskFactory
    restorer: Restorer
    inputs: Inputs
    offsets: GroupOffsets
    reports: TaskReports
    settings: StreamsSettings
    clock: Clock
    on_ready: Callable[[TaskId], None]
    on_behind: Callable[[TaskId], None]
    on_closed: Callable[[TaskId], None]


class LocalTask:
    """`drive` is its task, and the only place that opens, closes and hands over the store.

    What is wanted may change at any moment. The store stays open from one role to the next (CORRECTNESS S2),
    and of learning, restoring and standing by nothing is interrupted by a rebalance (S4).
    """

    def __init__(self, task: TaskId, around: Surroundings) -> None:
        self.task = task
        self.role = Role.SUSPENDED
        self.active: ActiveTask | None = None
        self.store: TaskStore | None = None
        self.restoration: Restoration | None = None
        self._around = around
        self._wanted = Wanted.SUSPEND
        self._changed = asyncio.Event()
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self._damaged = False
        """True while the store is to be opened anew, which empties it (CORRECTNESS S6)."""

    # --- what others want ----------------------------------------------------------------------

    def want(self, wanted: Wanted) -> None:
        if wanted is not self._wanted:
            self._wanted = wanted
            self._changed.set()

    def assigned_more(self) -> None:
        """The consumer has got partitions that this task reads: one that runs, or is about to, begins again,
        for it reads more now, or another one has run in between."""
        if self._wanted is Wanted.RUN:
            self._changed.set()

    def abandon(self, *, damaged: bool = False) -> None:
        """What it processed and did not commit counts for nothing; it restores if it is still to run."""
        self._damaged |= damaged
        if self.active is not None:
            self.active.abandon()
        self._changed.set()

    async def suspended(self) -> None:
        """Return once it does not run any more, and what it processed is committed."""
        await self._at_rest.wait()

    # --- what it does ---------------------------------------------------------------------------

    async def drive(self) -> None:
        """Until it is to be closed, and is. Raises what keeps a task from running for good."""
        try:
            while True:
                self._changed.clear()
                try:
                    if self._damaged:
                        await self._begin_anew()
                    if self._wanted is not Wanted.SUSPEND:
                        self._at_rest.clear()
                    match self._wanted:
                        case Wanted.RUN:
                            await self._run()
                        case Wanted.LEARN:
                            await self._follow(Role.LEARNING, TaskChangeKind.LEARNING)
                        case Wanted.STAND_BY:
                            await self._follow(Role.STANDBY, TaskChangeKind.STANDBY)
                        case Wanted.SUSPEND:
                            await self._rest()
                        case Wanted.CLOSE:
                            await self._close()
                            if not self._changed.is_set():
                                return
                except _Changed:
                    continue
                except StoreCorrupt as error:
                    logger.warning("task %s begins its store anew: %s", self.task, error)
                    self._damaged = True
        finally:
            self._at_rest.set()
            await self._close()
            self._around.on_closed(self.task)

    async def _run(self) -> None:
        around = self._around
        inputs = await self._unless_changed(self._retried(lambda: around.factory.inputs(self.task)))
        if not around.inputs.assigned(inputs):
            await self._changed.wait()  # some of them are another one's still: the group is not done
            return
        end = 0
        if around.factory.changelog(self.task) is not None:
            self._become(Role.RESTORING, TaskChangeKind.RESTORING)
            end = await self._restored()
        positions = around.factory.positions(self.store)
        new = inputs - positions.offsets.keys()
        try:
            starts = around.factory.starts
            positions.offsets |= await self._unless_changed(self._retried(lambda: starts(self.task, new)))
        except InvalidRequest:
            if around.inputs.assigned(inputs):
                raise
            await self._changed.wait()  # they are lost, of which it hears in a moment
            return
        active = self.active = around.factory.active(self.task, self.store, end, positions)
        around.inputs.begin(active, inputs)
        self._become(Role.RUNNING, TaskChangeKind.RUNNING)
        await self._changed.wait()
        around.inputs.end(active)
        await self._halt(active, inputs)
        self.active = None

    async def _retried(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Retries without a limit: another member could not run the task either."""
        around = self._around
        return await retry(ask, f"task {self.task} waits", settings=around.settings, clock=around.clock)

    async def _restored(self) -> int:
        """The end of the changelog, once the store has all of it."""
        restoration = await self._restoration()
        try:
            end = await self._unless_changed(restoration.complete())
        except BaseException:
            await self._stop_restoring()
            raise
        self.restoration = None
        return end

    async def _halt(self, active: ActiveTask, inputs: frozenset[TopicPartition]) -> None:
        around = self._around
        try:
            if not active.abandoned():
                await active.commit()
            if not active.abandoned():
                around.inputs.reached(active.offsets())
                await around.offsets.commit([active])
        except StoreCorrupt:
            self._damaged = True
        except UnexpectedOffset as error:
            logger.warning("task %s is another one's already: %s", self.task, error)
        except StrandlineError as error:
            logger.warning("task %s gives up what it did since its last commit: %s", self.task, error)
        finally:
            active.abandon()
            around.offsets.forget(inputs)

    async def _follow(self, role: Role, kind: TaskChangeKind) -> None:
        """Learn, or stand by: read on and on, and say when the state is near enough (CORRECTNESS S1, S7)."""
        around, lag_max = self._around, self._around.settings.acceptable_lag
        self._become(role, kind)
        if around.factory.changelog(self.task) is None:
            around.on_ready(self.task)
            await self._changed.wait()
            return
        restoration = await self._restoration()
        while True:
            await self._unless_changed(restoration.within(lag_max))
            if role is Role.LEARNING:
                around.reports.tell(TaskChangeKind.READY, self.task, restoration)
            around.on_ready(self.task)
            while restoration.lag is not None and restoration.lag <= 2 * lag_max + SLACK_RECORDS:
                await self._unless_changed(around.clock.sleep(around.settings.progress_interval_ms / 1000))
            around.on_behind(self.task)

    async def _rest(self) -> None:
        self._become(Role.SUSPENDED, TaskChangeKind.SUSPENDED)
        self._at_rest.set()
        await self._changed.wait()

    def _become(self, role: Role, kind: TaskChangeKind) -> None:
        if role is not self.role:
            self.role = role
            self._around.reports.tell(kind, self.task, self.restoration)

    # --- its store ------------------------------------------------------------------------------

    async def _restoration(self) -> Restoration:
        """The one that is under way, or a new one."""
        if self.restoration is None:
            changelog = self._around.factory.changelog(self.task)
            assert changelog is not None
            if self.store is None:
                await self._unless_changed(self._retried(lambda: self._around.factory.prepare(self.task)))
                identity = await self._unless_changed(self._around.restorer.identity(changelog))
                self.store = self._around.factory.open_store(self.task, identity)
            self.restoration = self._around.restorer.begin(self.task, changelog, self.store)
        return self.restoration

    async def _stop_restoring(self) -> None:
        restoration, self.restoration = self.restoration, None
        if restoration is not None:
            await restoration.end()

    async def _begin_anew(self) -> None:
        """Its store is damaged, and empty when it is opened again: if it was learned, it is not any more."""
        await self._close()
        self._damaged = False
        self._around.on_behind(self.task)

    async def _close(self) -> None:
        await self._stop_restoring()
        store, self.store = self.store, None
        if store is not None:
            store.close()

    async def _unless_changed(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result, unless something else is wanted before: then it is cancelled. Raises as it does."""
        try:
            async with asyncio.TaskGroup() as tasks:
                working = tasks.create_task(work)
                waiting = tasks.create_task(self._changed.wait())
                await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
                if not working.done():
                    working.cancel()
                waiting.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
        if working.cancelled():
            raise _Changed
        return working.result()
