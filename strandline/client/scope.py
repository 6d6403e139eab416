"""A TaskGroup with a start and a stop, for clients that do not live in one lexical block."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from strandline.errors import InvalidRequest, StrandlineError
from strandline.tasks import expected


class Scope:
    """Owns every task of a client.

    One task has to enter and leave a TaskGroup, but users start a client in one task and stop it in another.
    So one task, the only one outside a group, holds the group open in between. If any task fails, the group
    ends as a whole, `on_failure` is called so that waiting calls end, and `check` and `stop` raise the error:
    a StrandlineError as it is, all others in a group.
    """

    def __init__(self, what: str, on_failure: Callable[[BaseException], None]) -> None:
        self._what = what
        self._on_failure = on_failure
        self._root: asyncio.Task[None] | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._members: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._first: BaseException | None = None
        """The error of the task that failed first, for the time in which the group cancels all others."""

    async def start(self) -> None:
        """Open the group. Raises InvalidRequest if it was opened before: a client starts once."""
        if self._root is not None:
            raise InvalidRequest(f"this {self._what} has been started already")
        opened = asyncio.Event()
        self._root = asyncio.get_running_loop().create_task(self._hold(opened), name=self._what)
        try:
            await opened.wait()
        except asyncio.CancelledError:
            self._stop.set()  # the caller stops no client that did not start
            raise

    async def _hold(self, opened: asyncio.Event) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                opened.set()
                await self._stop.wait()
                raise asyncio.CancelledError  # cancels the group's tasks, and thereby ends it
        except BaseExceptionGroup as group:
            error = _as_raised(group)
            self._on_failure(error)
            if error is group:
                raise
            raise error from group

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a task until it ends or the scope does. Raises as `check`.

        A task of the scope that calls this while the scope ends is about to be cancelled. It ends with that
        cancellation at once, and not with an error, which would count as a failure of the client.
        """
        try:
            if not self.runs and asyncio.current_task() in self._members:
                raise asyncio.CancelledError
            self.check()
        except BaseException:
            work.close()
            raise
        assert self._tasks is not None
        task = self._tasks.create_task(work, name=f"{self._what}: {name}")
        self._members.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._members.discard(task)
        if not task.cancelled() and self._first is None and (error := task.exception()) is not None:
            self._first = _as_raised(BaseExceptionGroup("a task failed", [error]))

    def check(self) -> None:
        """Raises InvalidRequest if the client does not run, and its error if it has failed."""
        if self._root is None:
            raise InvalidRequest(f"this {self._what} is not started: use `async with`, or `await start()`")
        if (error := self._failure) is not None:
            raise error
        if not self.runs:
            raise InvalidRequest(f"this {self._what} has been stopped")

    @property
    def runs(self) -> bool:
        """False before the start, and from the stop or the first failure on."""
        return not (self._root is None or self._root.done() or self._stop.is_set() or self._first)

    def error(self) -> Exception | None:
        """The error that made the client fail, if there is one."""
        return self._failure if isinstance(self._failure, Exception) else None

    @property
    def _failure(self) -> BaseException | None:
        root = self._root
        if root is None or not root.done():
            return self._first
        return None if root.cancelled() else root.exception()

    async def stop(self) -> None:
        """Cancel every task and wait for their ends. May be called again.

        A caller that is cancelled meanwhile ends with that, also if the scope ends at the same moment.
        """
        self._stop.set()
        if self._root is not None:
            _ = await asyncio.wait([self._root])
            if (error := self._failure) is not None:
                raise error


def _as_raised(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """What calls raise for them: a StrandlineError as it is, all others in the group."""
    error = expected(StrandlineError, failures)
    return failures if error is None else error


class Startable(ABC):
    """Can be started and stopped, and used by `async with`. By default each end of the block calls `stop`."""

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None: ...

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
