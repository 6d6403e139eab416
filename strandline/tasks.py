"""What asyncio's task groups leave to be done: a bound for many awaits, a cancellation that is not lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from strandline.ports import Clock

Item = TypeVar("Item")
T = TypeVar("T")
Failure = TypeVar("Failure", bound=Exception)
Part = Coroutine[Any, Any, None]


SLICE_S: Final = 0.01
"""How long a loop over what one request names keeps the event loop from everything else."""


class Slices:
    """Of a long loop: `if slices.used_up: await slices.next()` in each round."""

    __slots__ = ("_clock", "_ends")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends = clock.monotonic() + SLICE_S

    @property
    def used_up(self) -> bool:
        return self._clock.monotonic() >= self._ends

    async def next(self) -> None:
        """Let everything else have its turn."""
        await asyncio.sleep(0)
        self._ends = self._clock.monotonic() + SLICE_S


@contextmanager
def group_caught() -> Iterator[None]:
    """Around a TaskGroup whose failure is caught, by a task that goes on.

    A group whose child fails asks its own task to cancel, and does not take that back if the task was waiting
    for the end of the group already (CPython before 3.13). The request stands for ever then: up to 3.11.2
    each timeout of that task comes out as a cancellation. Here it is taken back.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        yield
    except asyncio.CancelledError:
        raise
    except BaseException:
        _taken_back(task, before)
        raise
    _taken_back(task, before)


def _taken_back(task: asyncio.Task[Any], before: int) -> None:
    if task.cancelling() > before:
        task.uncancel()


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
        with group_caught():
            async with asyncio.TaskGroup() as tasks:
                for item in items:
                    await slots.acquire()
                    started.append(tasks.create_task(one(item)))
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return [task.result() for task in started]


async def until_failure(kind: type[Failure] | tuple[type[Failure], ...], *parts: Part) -> Failure:
    """Run these side by side until one fails in an expected way: that failure. The others are cancelled.

    A TaskGroup around them that fails while its own task is cancelled raises the failure and forgets the
    cancellation; who caught it and went on would never end. So an expected failure is a value here.
    What is not expected is raised, in a group.
    """
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_failure(kind, part)) for part in parts]
        ended, others = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
    return ended.pop().result()


async def _failure(kind: type[Failure] | tuple[type[Failure], ...], part: Part) -> Failure:
    try:
        await part
    except kind as failure:
        return failure
    except BaseExceptionGroup as group:
        expected, others = group.split(kind)
        if expected is None or others is not None:
            raise
        return _leaf(expected)
    raise AssertionError("a part ends only by failing")


def _leaf(group: BaseExceptionGroup[Failure]) -> Failure:
    """The first failure of a group and of the groups within it."""
    first = group.exceptions[0]
    return _leaf(first) if isinstance(first, BaseExceptionGroup) else first
