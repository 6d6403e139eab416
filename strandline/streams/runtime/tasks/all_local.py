"""All tasks of a member, each in the role that the group wants."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from strandline.client.scope import Scope
from strandline.streams.core.task import TaskId
from strandline.streams.runtime.reports import Restoring, TaskReports
from strandline.streams.runtime.tasks.local import LocalTask, TaskContext, Wanted
from strandline.vocabulary.groups import TaskChangeKind

logger = logging.getLogger(__name__)


class LocalTasks:
    """Starts and ends the tasks. `make_context` builds the context that they share, given the callback for a
    closed task."""

    def __init__(
        self,
        make_context: Callable[[Callable[[TaskId], None]], TaskContext],
        reports: TaskReports,
        scope: Scope,
    ) -> None:
        self._context = make_context(self._closed)
        self._reports = reports
        self._scope = scope
        self._tasks: dict[TaskId, LocalTask] = {}

    def __iter__(self) -> Iterator[LocalTask]:
        return iter(list(self._tasks.values()))

    def find(self, task: TaskId) -> LocalTask | None:
        return self._tasks.get(task)

    def want(self, task: TaskId, wanted: Wanted) -> None:
        """Set a task's role; a new one is started unless it is to be closed, or the application has failed:
        the group still assigns tasks until the application is stopped."""
        local = self._tasks.get(task)
        if local is not None:
            local.want(wanted)
        elif wanted is not Wanted.CLOSE:
            local = LocalTask(task, self._context)
            local.want(wanted)
            try:
                self._scope.spawn(local.drive(), f"task {task}")
            except Exception as error:
                logger.info("task %s does not begin: %s", task, error)
            else:
                self._tasks[task] = local

    async def suspend(self, tasks: Iterable[TaskId]) -> None:
        """Return once none of these tasks runs, and their results are committed."""
        progressed = [local for task in tasks if (local := self._tasks.get(task)) is not None]
        for local in progressed:
            local.want(Wanted.SUSPEND)
        for local in progressed:
            await local.suspended()

    def abandon(self, task: TaskId, *, damaged: bool = False) -> None:
        """Void the results since the task's last commit; `damaged`: its store too."""
        if (local := self._tasks.get(task)) is not None:
            local.abandon(damaged=damaged)

    def restoring(self) -> list[Restoring]:
        return [(local.task, local.restoration) for local in self if local.restoration is not None]

    def _closed(self, task: TaskId) -> None:
        del self._tasks[task]
        self._reports.report(TaskChangeKind.CLOSED, task)
