"""Tells the group's events what becomes of tasks (docs/use/groups.md, "Events")."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from strandline.consumer.consumer import Consumer
from strandline.ports import Clock
from strandline.streams.core.task import TaskId
from strandline.streams.restore.restoration import Restoration
from strandline.vocabulary.groups import TaskChange, TaskChangeKind

logger = logging.getLogger(__name__)

Restoring = tuple[TaskId, Restoration]


class TaskReports:
    """In order, and for as long as it costs nobody anything: nothing waits for it."""

    def __init__(self, consumer: Consumer, clock: Clock) -> None:
        self._consumer = consumer
        self._clock = clock

    def tell(self, kind: TaskChangeKind, task: TaskId, restoration: Restoration | None = None) -> None:
        self._report([self._change(kind, task, restoration)])

    async def run(self, restoring: Callable[[], Iterable[Restoring]], interval_s: float) -> None:
        """The progress of whatever is being restored, now and then."""
        told: dict[TaskId, int] = {}
        while True:
            await self._clock.sleep(interval_s)
            now = dict(restoring())
            going = [task for task, restoration in now.items() if told.get(task) != restoration.restored]
            told = {task: restoration.restored for task, restoration in now.items()}
            if going:
                self._report([self._change(TaskChangeKind.PROGRESS, task, now[task]) for task in going])

    def _report(self, changes: list[TaskChange]) -> None:
        """A consumer that is stopped, or has failed, tells nothing any more; whoever reads hears why."""
        try:
            self._consumer.report_tasks(changes)
        except Exception as error:
            logger.debug("what became of tasks is not told: %s", error)

    def _change(self, kind: TaskChangeKind, task: TaskId, restoration: Restoration | None) -> TaskChange:
        at_ms = self._clock.wall_ms()
        if restoration is None or restoration.lag is None:
            return TaskChange(kind, str(task), at_ms)
        remaining_s = restoration.remaining_s
        return TaskChange(
            kind,
            str(task),
            at_ms,
            lag=restoration.lag,
            records_per_s=restoration.records_per_s,
            remaining_ms=-1 if remaining_s is None else int(remaining_s * 1000),
        )
