"""Additions to asyncio's task groups: bounded concurrency, and cancellations that are not lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from strandline.ports import Clock

Item = TypeVar("Item")
T = TypeVar("T")
Failure = TypeVar("Failure", bound=Exception)
Part = Coroutine[Any, Any, None]


SLICE_S: Final = 0.01
"""How long a loop over the elements of one request may block the event loop."""


class Slices:
    """Splits a long loop into time slices: `if slices.used_up: await slices.next()` in each round."""

    __slots__ = ("_clock", "_ends")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends = clock.monotonic() + SLICE_S

    @property
    def used_up(self) -> bool:
        return self._clock.monotonic() >= self._ends

    async def next(self) -> None:
        """Let other tasks run, and begin the next slice."""
        await asyncio.sleep(0)
        self._ends = self._clock.monotonic() + SLICE_S


async def in_slices(work: Callable[[Item], T], items: Iterable[Item], clock: Clock) -> list[T]:
    """The result for each item, in order. Other tasks have their turns meanwhile: there may be thousands."""
    slices, found = Slices(clock), list[T]()
    for item in items:
        if slices.used_up:
            await slices.next()
        found.append(work(item))
    return found


def caller_is_cancelled() -> bool:
    """True if the calling task is being cancelled. Else a CancelledError is of something it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def contained(work: Awaitable[T]) -> T:
    """The result of work that may end with the failure of a TaskGroup, after which the caller continues.

    A group whose child fails asks its own task to cancel. Up to 3.12, CPython may leave that request
    there, and it may take a cancellation of that task by others for its own, which is then lost. So the
    work has a task of its own, and the caller's task sees only its failure, or only a cancellation.
    """
    failures: list[Exception] = []
    results: list[T] = []

    async def contain() -> None:
        try:
            results.append(await work)
        except Exception as failure:
            failures.append(failure)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(contain())
    if failures:
        raise failures[0]
    task.result()  # raises a cancellation of the work
    return results[0]


async def pipelined(
    work: Callable[[Item], Awaitable[T]], items: Iterable[Item], *, in_flight_max: int
) -> list[T]:
    """The result for each item, in order. The first failure cancels the others and is raised as it is.

    No task of the group fails, so that a cancellation of the caller at the same moment is not lost: see
    `until_failure`.
    """
    slots = asyncio.Semaphore(in_flight_max)
    running: set[asyncio.Task[None]] = set()
    results: dict[int, T] = {}
    failures: list[Exception] = []

    async def one(number: int, item: Item) -> None:
        try:
            results[number] = await work(item)
        except Exception as failure:
            failures.append(failure)
            for task in running:
                if task is not asyncio.current_task():
                    task.cancel()
        finally:
            slots.release()

    async with asyncio.TaskGroup() as tasks:
        for number, item in enumerate(items):
            await slots.acquire()
            if failures:
                break
            task = tasks.create_task(one(number, item))
            running.add(task)
            task.add_done_callback(running.discard)
    if failures:
        raise failures[0]
    return [results[number] for number in range(len(results))]


async def until_failure(kind: type[Failure] | tuple[type[Failure], ...], *parts: Part) -> Failure:
    """Run the parts concurrently until one fails with an expected error, and return that error. The
    others are cancelled.

    A TaskGroup that fails while its own task is being cancelled raises the failure and loses the
    cancellation; a task that caught the failure and continued would never end. So an expected
    failure is returned as a value. An unexpected failure is raised, in a group.
    """
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_failure(kind, part)) for part in parts]
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        ended = [task for task in running if task.done()]
        for task in running:
            task.cancel()
    return ended[0].result()


async def _failure(kind: type[Failure] | tuple[type[Failure], ...], part: Part) -> Failure:
    try:
        await part
    except kind as failure:
        return failure
    except BaseExceptionGroup as group:
        if (found := expected(kind, group)) is None:
            raise
        return found
    raise AssertionError("a part ends only by failing")


def expected(
    kind: type[Failure] | tuple[type[Failure], ...], group: BaseExceptionGroup[BaseException]
) -> Failure | None:
    """The first failure of a group; None if one of its failures is of another kind."""
    those, others = group.split(kind)
    return None if those is None or others is not None else _leaf(those)


def _leaf(group: BaseExceptionGroup[Failure]) -> Failure:
    """The first failure of a group and of its nested groups."""
    first = group.exceptions[0]
    return _leaf(first) if isinstance(first, BaseExceptionGroup) else first
