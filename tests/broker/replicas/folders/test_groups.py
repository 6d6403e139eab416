"""Work that waits for the disk is done once for all who need it at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

import pytest

from strandline.broker.replicas.folders.groups import Groups
from tests.waiting import eventually

P = ParamSpec("P")
T = TypeVar("T")


class HeldThreads:
    """`Threads` whose functions run once the test releases them."""

    def __init__(self) -> None:
        self.held: list[asyncio.Event] = []

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        released = asyncio.Event()
        self.held.append(released)
        await released.wait()
        return function(*args, **kwargs)


class Bench:
    def __init__(self) -> None:
        self.threads = HeldThreads()
        self.worked: list[list[int]] = []
        self.failure: Exception | None = None
        self.groups = Groups[int](self.work, self.threads)

    def work(self, items: Sequence[int]) -> None:
        self.worked.append(list(items))
        if self.failure is not None:
            raise self.failure

    async def held(self, count: int) -> None:
        """This number of groups has begun."""
        await eventually(lambda: len(self.threads.held) == count)


async def test_callers_of_the_same_moment_are_one_group() -> None:
    bench = Bench()
    async with asyncio.TaskGroup() as tasks:
        for item in range(250):
            tasks.create_task(bench.groups.join(item))
        await bench.held(1)
        bench.threads.held[0].set()
    assert bench.worked == [list(range(250))]


async def test_callers_that_come_during_the_work_form_the_next_group() -> None:
    bench = Bench()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(bench.groups.join(1))
        await bench.held(1)
        later = [tasks.create_task(bench.groups.join(item)) for item in (2, 3)]
        bench.threads.held[0].set()
        await first
        await bench.held(2)
        assert not any(each.done() for each in later)
        bench.threads.held[1].set()
    assert bench.worked == [[1], [2, 3]]


@pytest.mark.parametrize("begun", [False, True], ids=["before-its-turn", "under-way"])
async def test_a_group_whose_first_caller_is_cancelled_is_given_up(begun: bool) -> None:
    """The others return, and ask again if their item still needs it."""
    bench = Bench()
    async with asyncio.TaskGroup() as tasks:
        if not begun:
            tasks.create_task(bench.groups.join(0))
            await bench.held(1)
        first = tasks.create_task(bench.groups.join(1))
        other = tasks.create_task(bench.groups.join(2))
        if begun:
            await bench.held(1)
        else:
            await asyncio.sleep(0)
        first.cancel()
        await other
        again = tasks.create_task(bench.groups.join(2))
        bench.threads.held[0].set()
        await bench.held(2)
        bench.threads.held[1].set()
        await again
    assert bench.worked == ([[2]] if begun else [[0], [2]])


async def test_a_caller_that_is_cancelled_as_it_waits_does_not_disturb_its_group() -> None:
    bench = Bench()
    async with asyncio.TaskGroup() as tasks:
        first, second, _ = (tasks.create_task(bench.groups.join(item)) for item in (1, 2, 3))
        await bench.held(1)
        second.cancel()
        bench.threads.held[0].set()
        await first
    assert bench.worked == [[1, 2, 3]]


async def test_a_failure_of_the_work_is_raised_at_one_caller() -> None:
    bench = Bench()
    bench.failure = ValueError("as the test wants it")
    raised: list[Exception | None] = [None, None]

    async def join(item: int) -> None:
        try:
            await bench.groups.join(item)
        except ValueError as error:
            raised[item] = error

    async with asyncio.TaskGroup() as tasks:
        for item in range(2):
            tasks.create_task(join(item))
        await bench.held(1)
        bench.threads.held[0].set()
    assert raised == [bench.failure, None]
