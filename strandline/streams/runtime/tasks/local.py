"""One task on this member, in any role: running, learned, standby or suspended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from strandline.client.retry import retry
from strandline.config.streams import StreamsSettings
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
from strandline.streams.storage.stores import StateStore
from strandline.vocabulary.groups import TaskChangeKind

logger = logging.getLogger(__name__)

T = TypeVar("T")

SLACK_RECORDS: Final = 1_000
"""A ready copy has fallen behind at twice the acceptable lag plus this number of records."""


class Role(Enum):
    """The present role of a task."""

    RUNNING = "running"
    RESTORING = "restoring"
    """Will run, once its state is restored to the end."""
    LEARNING = "learning"
    STANDBY = "standby"
    SUSPENDED = "suspended"
    """Suspended for a moment, its store open."""


class Wanted(Enum):
    """The wanted role of a task."""

    RUN = "run"
    LEARN = "learn"
    STAND_BY = "stand by"
    SUSPEND = "suspend"
    CLOSE = "close"


_AT_FIRST: Final = {
    Wanted.RUN: Role.RESTORING,
    Wanted.LEARN: Role.LEARNING,
    Wanted.STAND_BY: Role.STANDBY,
}
"""The role of a task that has not begun with what is wanted of it; else SUSPENDED."""


class _Changed(Exception):
    """The wanted role changed."""


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The services that all tasks of a member share. `on_ready` and `on_behind` are called for learners and
    standbys."""

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
    """`drive` is its asyncio task, and the only code that opens, closes and hands over the store.

    The wanted role may change at any moment. The store stays open from one role to the next (CORRECTNESS S2),
    and a rebalance does not interrupt learning, restoring and standing by (S4).
    """

    def __init__(self, task: TaskId, context: TaskContext) -> None:
        self.task = task
        self._role: Role | None = None
        """None until the task begins."""
        self.active: ActiveTask | None = None
        self.store: StateStore | None = None
        self.restoration: Restoration | None = None
        self._context = context
        self._wanted = Wanted.SUSPEND
        self._changed = asyncio.Event()
        self._suspended = asyncio.Event()
        self._suspended.set()
        self._damaged = False
        """True while the store must be opened again, which empties it (CORRECTNESS S6)."""

    @property
    def role(self) -> Role:
        return self._role or _AT_FIRST.get(self._wanted, Role.SUSPENDED)

    # --- requests ---------------------------------------------------------------------------------

    def want(self, wanted: Wanted) -> None:
        if wanted is not self._wanted:
            self._wanted = wanted
            self._changed.set()

    def assigned_more(self) -> None:
        """The consumer got partitions of this task: a running or starting task restarts, because it has more
        inputs, or another member ran it in between."""
        if self._wanted is Wanted.RUN:
            self._changed.set()

    def abandon(self, *, damaged: bool = False) -> None:
        """Void the uncommitted results; the task restores if it is still to run."""
        self._damaged |= damaged
        if self.active is not None:
            self.active.abandon()
        self._changed.set()

    async def suspended(self) -> None:
        """Return once it does not run, and its results are committed."""
        await self._suspended.wait()

    # --- the driver -------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Run until it is closed. Raises errors that permanently keep a task from running."""
        try:
            while True:
                self._changed.clear()
                try:
                    if self._damaged:
                        await self._reopen_empty()
                    if self._wanted is not Wanted.SUSPEND:
                        self._suspended.clear()
                    match self._wanted:
                        case Wanted.RUN:
                            await self._run()
                        case Wanted.LEARN:
                            await self._follow(Role.LEARNING, TaskChangeKind.LEARNING)
                        case Wanted.STAND_BY:
                            await self._follow(Role.STANDBY, TaskChangeKind.STANDBY)
                        case Wanted.SUSPEND:
                            await self._suspend()
                        case Wanted.CLOSE:
                            await self._close()
                            if not self._changed.is_set():
                                return
                except _Changed:
                    continue
                except StoreCorrupt as error:
                    logger.warning("task %s empties its store: %s", self.task, error)
                    self._damaged = True
        finally:
            self._suspended.set()
            await self._close()
            self._context.on_closed(self.task)

    async def _run(self) -> None:
        context = self._context
        inputs = await self._unless_changed(self._retry(lambda: context.factory.inputs(self.task)))
        if not context.inputs.assigned(inputs):
            await self._changed.wait()  # some still belong to another member: the rebalance is not complete
            return
        end = 0
        if context.factory.changelog(self.task) is not None:
            self._become(Role.RESTORING, TaskChangeKind.RESTORING)
            end = await self._restored()
        positions = context.factory.positions(self.store)
        new = sorted(inputs - positions.inputs.keys())
        try:
            starts = context.factory.starts
            positions.inputs |= await self._unless_changed(self._retry(lambda: starts(self.task, new)))
        except InvalidRequest:
            if context.inputs.assigned(inputs):
                raise
            await self._changed.wait()  # they are lost; the notification follows in a moment
            return
        active = self.active = context.factory.active(
            self.task, self.store, end, positions, has_new_starts=bool(new)
        )
        context.inputs.begin(active, inputs)
        self._become(Role.RUNNING, TaskChangeKind.RUNNING)
        await self._changed.wait()
        context.inputs.end(active)
        await self._halt(active, inputs)
        self.active = None

    async def _retry(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Retries without a limit: another member could not run the task either."""
        context = self._context
        return await retry(ask, f"task {self.task} waits", settings=context.settings, clock=context.clock)

    async def _restored(self) -> int:
        """Restore the complete changelog; returns its end."""
        restoration = await self._restoration()
        try:
            end = await self._unless_changed(restoration.complete())
        except BaseException:
            await self._stop_restoring()
            raise
        self.restoration = None
        return end

    async def _halt(self, active: ActiveTask, inputs: frozenset[TopicPartition]) -> None:
        context = self._context
        try:
            if active.abandoned():
                await active.undecided()
            else:
                await active.commit()
            if not active.abandoned():
                context.inputs.reached(active.positions())
                await context.offsets.commit([active])
        except StoreCorrupt:
            self._damaged = True
        except UnexpectedOffset as error:
            logger.warning("task %s is another one's already: %s", self.task, error)
        except StrandlineError as error:
            logger.warning("task %s gives up what it did since its last commit: %s", self.task, error)
        finally:
            active.abandon()
            context.offsets.forget(inputs)

    async def _follow(self, role: Role, kind: TaskChangeKind) -> None:
        """Learn, or stand by: read continuously, and report when the state is close enough to the end
        (CORRECTNESS S1, S7)."""
        context, lag_max = self._context, self._context.settings.acceptable_lag
        self._become(role, kind)
        if context.factory.changelog(self.task) is None:
            context.on_ready(self.task)
            await self._changed.wait()
            return
        restoration = await self._restoration()
        while True:
            await self._unless_changed(restoration.within(lag_max))
            if role is Role.LEARNING:
                context.reports.report(TaskChangeKind.READY, self.task, restoration)
            context.on_ready(self.task)
            while restoration.lag is not None and restoration.lag <= 2 * lag_max + SLACK_RECORDS:
                await self._unless_changed(context.clock.sleep(context.settings.progress_interval_ms / 1000))
            context.on_behind(self.task)

    async def _suspend(self) -> None:
        if self._role is not None:
            self._become(Role.SUSPENDED, TaskChangeKind.SUSPENDED)
        self._suspended.set()
        await self._changed.wait()

    def _become(self, role: Role, kind: TaskChangeKind) -> None:
        if role is not self._role:
            self._role = role
            self._context.reports.report(kind, self.task, self.restoration)

    # --- its store ------------------------------------------------------------------------------

    async def _restoration(self) -> Restoration:
        """The restoration in progress, or a new one."""
        if self.restoration is None:
            changelog = self._context.factory.changelog(self.task)
            assert changelog is not None
            if self.store is None:
                await self._unless_changed(self._retry(lambda: self._context.factory.prepare(self.task)))
                identity = await self._unless_changed(self._context.restorer.identity(changelog))
                self.store = self._context.factory.open_store(self.task, identity)
            self.restoration = self._context.restorer.begin(self.task, changelog, self.store)
        return self.restoration

    async def _stop_restoring(self) -> None:
        restoration, self.restoration = self.restoration, None
        if restoration is not None:
            await restoration.end()

    async def _reopen_empty(self) -> None:
        """Reopen a damaged store, which empties it: a ready copy is no longer ready."""
        await self._close()
        self._damaged = False
        self._context.on_behind(self.task)

    async def _close(self) -> None:
        await self._stop_restoring()
        store, self.store = self.store, None
        if store is not None:
            store.close()

    async def _unless_changed(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which is cancelled if the wanted role changes before. Raises its errors."""
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
