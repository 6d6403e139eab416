"""Reports task changes to the group's events (docs/use/groups.md, "Events")."""

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
    """Reports are in order and best effort: no task waits for them."""

    def __init__(self, consumer: Consumer, clock: Clock) -> None:
        self._consumer = consumer
        self._clock = clock

    def report(self, kind: TaskChangeKind, task: TaskId, restoration: Restoration | None = None) -> None:
        self._send([self._change(kind, task, restoration)])

    async def run(self, restoring: Callable[[], Iterable[Restoring]], interval_s: float) -> None:
        """Report the progress of all restorations at an interval."""
        reported: dict[TaskId, int] = {}
        while True:
            await self._clock.sleep(interval_s)
            now = dict(restoring())
            changed = [
                task for task, restoration in now.items() if reported.get(task) != restoration.restored
            ]
            reported = {task: restoration.restored for task, restoration in now.items()}
            if changed:
                self._send([self._change(TaskChangeKind.PROGRESS, task, now[task]) for task in changed])

    def _send(self, changes: list[TaskChange]) -> None:
        """A consumer that is stopped or has failed reports nothing; its next read raises the reason."""
        try:
            self._consumer.report_tasks(changes)
        except Exception as error:
            logger.debug("what became of tasks is not reported: %s", error)

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
