"""The loop of a stream application: takes records, has them processed, and commits in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from strandline.config import StreamsSettings
from strandline.consumer.consumer import Consumer
from strandline.consumer.records import ConsumerRecord
from strandline.errors import StrandlineError, UnexpectedOffset
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.streams.core.task import TaskId
from strandline.streams.runtime.tasks.active import ActiveTask
from strandline.streams.runtime.tasks.group_offsets import GroupOffsets
from strandline.streams.runtime.tasks.inputs import Inputs
from strandline.streams.storage.errors import StoreCorrupt

logger = logging.getLogger(__name__)

SLICE_RECORDS_FIRST: Final = 100

Stop = UnexpectedOffset | StoreCorrupt
"""What ends a task's run, and has it restored."""


class Poller:
    """Records are taken in slices that take about `slice_ms`, however long one takes: between them the
    group's rebalances, other tasks and the rest of the program have their turn. `on_stopped` hears of a
    task that has to be restored: somebody else has extended its changelog, or its store is damaged.
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

    async def end(self) -> None:
        """Return once nothing is processed any more."""
        self._ending = True
        await self._ended.wait()

    async def run(self) -> None:
        """Until `end`. Raises ProcessingFailed, what a send raises, and what made the consumer fail."""
        interval_s = self._settings.commit_interval_ms / 1000
        due = self._clock.monotonic() + interval_s
        self._ended.clear()
        try:
            while not self._ending:
                taken = await self._take(due)
                if taken:
                    await self._process(taken)
                if self._clock.monotonic() >= due:
                    await self._commit_all()
                    due = self._clock.monotonic() + interval_s
            # What was handed out last is processed, or is read again: nobody has to wait for it.
            self._consumer.pause(*self._consumer.assignment())
            _ = await self._consumer.getmany()
        finally:
            self._ended.set()

    async def _take(self, due: float) -> Mapping[TopicPartition, Sequence[ConsumerRecord]]:
        """What has come; waits for it until `due`. While no broker tells where to begin in a partition, the
        others go on."""
        try:
            wait_ms = max(0.0, due - self._clock.monotonic()) * 1000
            return await self._consumer.getmany(timeout_ms=wait_ms, max_records=self._slice)
        except StrandlineError as error:
            if not error.retriable or self._consumer.error() is not None:
                raise
            logger.info("nothing can be read now: %s", error)
        await self._clock.sleep(self._settings.retry_backoff_ms_max / 1000)
        return {}

    async def _process(self, taken: Mapping[TopicPartition, Sequence[ConsumerRecord]]) -> None:
        processed, took_s = 0, 0.0
        # Now: a task that restores and runs again meanwhile begins elsewhere, and has other records coming.
        readers = {source: self._inputs.reader(source) for source in taken}
        for source, records in taken.items():
            active = readers[source]
            start = 0
            # One that is given up takes no more, while it commits what it has.
            while active is not None and self._inputs.reader(source) is active and start < len(records):
                if active.abandoned():
                    break
                began = self._clock.monotonic()
                try:
                    end = active.process(source, records, start)
                except StoreCorrupt as error:
                    self._stop(active, error)
                    break
                took_s += self._clock.monotonic() - began
                processed += end - start
                start = end
                await active.send()
                if active.full:
                    await self._commit(active)
        if processed:
            wanted = processed * self._settings.slice_ms / 1000 / max(took_s, 1e-6)
            wanted = min(max(wanted, self._slice / 2), self._slice * 2, self._settings.slice_records_max)
            self._slice = max(1, int(wanted))

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
        except (UnexpectedOffset, StoreCorrupt) as error:
            self._stop(active, error)

    def _stop(self, active: ActiveTask, error: Stop) -> None:
        active.abandon()
        self._on_stopped(active.task, error)
