"""Tells the group's events what becomes of tasks (docs/groups.md, "Events")."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from consumer.consumer import Consumer
from strandline.groups import TaskChange, TaskChangeKind
from strandline.ports import Clock
from streams.core.task import TaskId
from streams.restore.restoration import Restoration

Restoring = tuple[TaskId, Restoration]


class TaskReports:
    """In order, and for as long as it costs nobody anything: nothing waits for it."""

    def __init__(self, consumer: Consumer, clock: Clock) -> None:
        self._consumer = consumer
        self._clock = clock

    def tell(self, kind: TaskChangeKind, task: TaskId, restoration: Restoration | None = None) -> None:
        self._consumer.report_tasks([self._change(kind, task, restoration)])

    async def run(self, restoring: Callable[[], Iterable[Restoring]], interval_s: float) -> None:
        """The progress of whatever is being restored, now and then."""
        told: dict[TaskId, int] = {}
        while True:
            await self._clock.sleep(interval_s)
            changes = []
            for task, restoration in restoring():
                if told.get(task) != restoration.restored:
                    told[task] = restoration.restored
                    changes.append(self._change(TaskChangeKind.PROGRESS, task, restoration))
            if changes:
                self._consumer.report_tasks(changes)

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
