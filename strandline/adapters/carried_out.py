"""Has a request that changes something carried out to its end, though its caller hangs up.

A caller that leaves between a write and what follows from it would otherwise have the change without that:
its line in the audit log, and what this process knows of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, Final, TypeVar

from strandline.errors import StrandlineError
from strandline.ports import Caller, Served, ServedCall

T = TypeVar("T")

CHANGES_IN_PROGRESS_MAX: Final = 1_000
"""Changes of one process in progress, those of callers that have left among them. Others wait."""


class Changes:
    """The changes in progress."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None
        self._runs = asyncio.Event()
        self._slots = asyncio.Semaphore(CHANGES_IN_PROGRESS_MAX)

    async def run(self) -> None:
        """Carries changes out until it is cancelled, which cancels them. Raises an error that none of them
        expects."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._runs.set()
            await asyncio.Event().wait()

    async def carry_out(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the work returns. A cancellation ends the wait for it, and not the work. Raises
        StrandlineError as the work does."""
        await self._runs.wait()
        await self._slots.acquire()
        assert self._tasks is not None
        task = self._tasks.create_task(_outcome(work))
        task.add_done_callback(lambda _: self._slots.release())
        outcome = await asyncio.shield(task)
        if isinstance(outcome, StrandlineError):
            raise outcome
        return outcome


async def _outcome(work: Callable[[], Coroutine[Any, Any, T]]) -> T | StrandlineError:
    try:
        return await work()
    except StrandlineError as error:
        return error


def carried_out(served: Iterable[Served], changes: Changes, is_change: Callable[[str], bool]) -> list[Served]:
    """The same calls. Those whose path is a change end only by themselves."""
    return [
        _carried_out(each, changes) if isinstance(each, ServedCall) and is_change(each.rpc.path) else each
        for each in served
    ]


def _carried_out(served: ServedCall[Any, Any], changes: Changes) -> Served:
    async def handle(request: Any, caller: Caller) -> Any:
        async def work() -> Any:
            return await served.handle(request, caller)

        return await changes.carry_out(work)

    return replace(served, handle=handle)
