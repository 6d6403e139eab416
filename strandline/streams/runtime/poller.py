"""The main loop of a stream application: polls records, processes them, and commits in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from strandline.config.streams import StreamsSettings
from strandline.consumer.consumer import Consumer
from strandline.errors import OffsetOutOfRange, StrandlineError, TransactionAbortable, UnexpectedOffset
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.records import Columns
from strandline.streams.core.task import TaskId
from strandline.streams.runtime.tasks.active import ActiveTask
from strandline.streams.runtime.tasks.group_offsets import GroupOffsets
from strandline.streams.runtime.tasks.inputs import Inputs
from strandline.streams.storage.errors import StoreCorrupt

logger = logging.getLogger(__name__)

SLICE_RECORDS_FIRST: Final = 100

Stop = UnexpectedOffset | StoreCorrupt | TransactionAbortable
"""Errors that end a task's run, so that it must be restored."""


class Poller:
    """Polls records in slices of about `slice_ms`. Between slices the group's rebalances, other tasks and the
    rest of the program run. Commits run beside it, one of a task at a time.

    `on_stopped` is called for a task that must be restored: another client has extended its changelog, its
    transaction was aborted, or its store is damaged.
    """

    def __init__(
        self,
        consumer: Consumer,
        inputs: Inputs,
        offsets: GroupOffsets,
        *,
        settings: StreamsSettings,
        clock: Clock,
        on_stopped: Callable[[TaskId, Stop], None],
    ) -> None:
        self._consumer = consumer
        self._inputs = inputs
        self._offsets = offsets
        self._settings = settings
        self._clock = clock
        self._on_stopped = on_stopped
        self._ending = False
        self._ended = asyncio.Event()
        self._ended.set()
        self._slice = SLICE_RECORDS_FIRST
        self._round: asyncio.Task[None] | None = None
        """The last commit of all tasks."""

    async def end(self) -> None:
        """Return once processing has stopped."""
        self._ending = True
        await self._ended.wait()

    async def run(self) -> None:
        """Runs until `end`, and the commits that it began. Raises ProcessingFailed, errors of sends, and
        failures of the consumer and of commits, all in a group."""
        self._ended.clear()
        try:
            async with asyncio.TaskGroup() as commits:
                await self._poll(commits)
        finally:
            self._ended.set()

    async def _poll(self, commits: asyncio.TaskGroup) -> None:
        interval_s = self._settings.commit_interval_ms / 1000
        due = self._clock.monotonic() + interval_s
        while not self._ending:
            taken = await self._take(due)
            if taken:
                await self._process(taken, commits)
            if self._clock.monotonic() >= due:
                self._inputs.check()
                if self._round is None or self._round.done():
                    self._round = commits.create_task(self._commit_all())
                due = self._clock.monotonic() + interval_s
        # Records handed out last are processed, or will be read again: a rebalance need not wait for them.
        self._consumer.pause(*sorted(self._consumer.assignment()))
        try:
            _ = await self._consumer.getmany()
        except StrandlineError as error:
            if not self._may_pass(error):
                raise

    async def _take(self, due: float) -> Mapping[TopicPartition, Columns]:
        """The arrived records; waits for some until `due`. While no broker answers where to begin in a
        partition, the others continue."""
        try:
            wait_ms = max(0.0, due - self._clock.monotonic()) * 1000
            return await self._consumer.getcolumns(timeout_ms=wait_ms, max_records=self._slice)
        except StrandlineError as error:
            if not self._may_pass(error):
                self._inputs.check()  # it may say more
                raise
            logger.info("nothing can be read now: %s", error)
        await self._clock.sleep(self._settings.retry_backoff_ms_max / 1000)
        return {}

    def _may_pass(self, error: StrandlineError) -> bool:
        """True for an error of a get call that is of some partition, for a while. A task that has not begun
        may have a position where the group has none, and raises the error itself if not."""
        passes = error.retriable or (isinstance(error, OffsetOutOfRange) and self._inputs.some_held())
        return passes and self._consumer.error() is None

    async def _process(self, taken: Mapping[TopicPartition, Columns], commits: asyncio.TaskGroup) -> None:
        processed, took_s = 0, 0.0
        # Look them up now: a task that is restored and runs again meanwhile begins elsewhere, with other
        # records, and a topic that is made anew meanwhile is another log than the one these records are of.
        readers = {source: self._inputs.reader(source) for source in taken}
        logs = {source: self._consumer.log(source) for source in taken}
        for source, records in taken.items():
            active = readers[source]
            start = 0
            # A revoked task processes no further records while it commits.
            while (
                active is not None and self._inputs.reader(source) is active and start < len(records.offsets)
            ):
                if active.abandoned():
                    break
                began = self._clock.monotonic()
                try:
                    end = active.process(source, records, start, logs[source])
                except StoreCorrupt as error:
                    self._stop(active, error)
                    break
                took_s += self._clock.monotonic() - began
                processed += end - start
                start = end
                await active.send()
                if active.full:
                    await self._begin_commit(active, commits)
        if processed:
            wanted = processed * self._settings.slice_ms / 1000 / max(took_s, 1e-6)
            wanted = min(max(wanted, self._slice / 2), self._slice * 2, self._settings.slice_records_max)
            self._slice = max(1, int(wanted))

    async def _begin_commit(self, active: ActiveTask, commits: asyncio.TaskGroup) -> None:
        """Begin a commit of a full task, after the one that is under way; then the task has room again."""
        await active.settled()
        commits.create_task(self._commit(active))
        await asyncio.sleep(0)

    async def _commit_all(self) -> None:
        running = self._inputs.running()
        async with asyncio.TaskGroup() as tasks:
            for active in running:
                if active.uncommitted:
                    tasks.create_task(self._commit(active))
        await self._offsets.commit(running)

    async def _commit(self, active: ActiveTask) -> None:
        try:
            await active.commit()
        except (UnexpectedOffset, StoreCorrupt, TransactionAbortable) as error:
            self._stop(active, error)

    def _stop(self, active: ActiveTask, error: Stop) -> None:
        active.abandon()
        self._on_stopped(active.task, error)
