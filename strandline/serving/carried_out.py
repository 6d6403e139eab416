"""Has a request carried out to its end, though its caller hangs up.

A caller that leaves between a write and what follows from it would otherwise have the change without that:
its line in the audit log, and what this process knows of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from strandline.errors import NotController, OutcomeUnknown, StrandlineError

T = TypeVar("T")

CHANGES_IN_PROGRESS_MAX: Final = 1_000
"""Requests of one controller in progress, those of callers that have left among them. Others wait."""


class Changes:
    """The changes in progress, and requests that only read: a controller has one mechanism for both."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None
        self._slots = asyncio.Semaphore(CHANGES_IN_PROGRESS_MAX)

    @contextmanager
    def accepted(self, tasks: asyncio.TaskGroup) -> Iterator[None]:
        """Changes are tasks of this group within it. Its end comes before the group cancels its tasks."""
        self._tasks = tasks
        try:
            yield
        finally:
            self._tasks = None

    async def carry_out(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the work returns. A cancellation ends the wait for it, and not the work. Raises
        StrandlineError as the work does, NotController if it was not begun, and OutcomeUnknown if the group
        of its task has ended it."""
        await self._slots.acquire()
        if self._tasks is None:
            self._slots.release()
            raise NotController("this controller is no longer active")
        task = self._tasks.create_task(_outcome(work))
        task.add_done_callback(lambda _: self._slots.release())
        await asyncio.wait((task,))
        if task.cancelled():
            raise lost_role()
        outcome = task.result()
        if isinstance(outcome, StrandlineError):
            raise outcome
        return outcome


def lost_role() -> OutcomeUnknown:
    """The outcome of a change that was ended with the role of its controller."""
    return OutcomeUnknown("this controller lost its role under the request: look what became of it")


async def _outcome(work: Callable[[], Coroutine[Any, Any, T]]) -> T | StrandlineError:
    try:
        return await work()
    except StrandlineError as error:
        return error


CarryOut = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Awaitable[Any]]
"""As `Changes.carry_out`."""
