"""All tasks of a member, each as what the group wants it to be here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from strandline.client.scope import Scope
from strandline.streams.core.task import TaskId
from strandline.streams.runtime.reports import Restoring, TaskReports
from strandline.streams.runtime.tasks.local import LocalTask, Surroundings, Wanted
from strandline.vocabulary.groups import TaskChangeKind

logger = logging.getLogger(__name__)


class LocalTasks:
    """Begins and ends them. `surroundings` makes what they share, given who hears that one is closed."""

    def __init__(
        self,
        surroundings: Callable[[Callable[[TaskId], None]], Surroundings],
        reports: TaskReports,
        scope: Scope,
    ) -> None:
        self._around = surroundings(self._closed)
        self._reports = reports
        self._scope = scope
        self._tasks: dict[TaskId, LocalTask] = {}

    def __iter__(self) -> Iterator[LocalTask]:
        return iter(list(self._tasks.values()))

    def find(self, task: TaskId) -> LocalTask | None:
        return self._tasks.get(task)

    def want(self, task: TaskId, wanted: Wanted) -> None:
        """Have it so from now on; one that is not here begins, unless that is what is wanted, or the
        application has failed: the group goes on telling what it would run, until it is stopped."""
        local = self._tasks.get(task)
        if local is not None:
            local.want(wanted)
        elif wanted is not Wanted.CLOSE:
            local = LocalTask(task, self._around)
            local.want(wanted)
            try:
                self._scope.spawn(local.drive(), f"task {task}")
            except Exception as error:
                logger.info("task %s does not begin: %s", task, error)
            else:
                self._tasks[task] = local

    async def suspend(self, tasks: Iterable[TaskId]) -> None:
        """Return once none of these runs any more, and what they processed is committed."""
        going = [local for task in tasks if (local := self._tasks.get(task)) is not None]
        for local in going:
            local.want(Wanted.SUSPEND)
        for local in going:
            await local.suspended()

    def abandon(self, task: TaskId, *, damaged: bool = False) -> None:
        """What it did since its last commit counts for nothing; damaged: nor does its store."""
        if (local := self._tasks.get(task)) is not None:
            local.abandon(damaged=damaged)

    def restoring(self) -> list[Restoring]:
        return [(local.task, local.restoration) for local in self if local.restoration is not None]

    def _closed(self, task: TaskId) -> None:
        del self._tasks[task]
        self._reports.tell(TaskChangeKind.CLOSED, task)
