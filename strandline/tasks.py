"""What asyncio's task groups leave to be done: a bound for many awaits, a cancellation that is not lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
T = TypeVar("T")


async def pipelined(
    work: Callable[[Item], Awaitable[T]], items: Iterable[Item], *, in_flight_max: int
) -> list[T]:
    """The result for each item, in order. The first failure ends the others and is raised as it is."""
    slots = asyncio.Semaphore(in_flight_max)

    async def one(item: Item) -> T:
        try:
            return await work(item)
        finally:
            slots.release()

    started = []
    try:
        async with asyncio.TaskGroup() as tasks:
            for item in items:
                await slots.acquire()
                started.append(tasks.create_task(one(item)))
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return [task.result() for task in started]


def check_cancelled() -> None:
    """Raise CancelledError if this task was told to end.

    A TaskGroup with a failure raises the failure even if its own task was cancelled in the same moment.
    Whoever catches it and goes on has to ask, or goes on for ever.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
