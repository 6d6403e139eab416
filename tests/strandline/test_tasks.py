"""A cancellation and a failure in the same moment, and many awaits with a bound."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from strandline.tasks import contained, pipelined, until_failure
from tests.waiting import eventually


class _Broken(Exception):
    pass


async def _for_ever(broken: asyncio.Event) -> None:
    """A client's sender does this: it begins again whenever its stream breaks."""

    async def part() -> None:
        await broken.wait()
        raise _Broken

    while True:
        await until_failure(_Broken, part())
        broken.clear()


async def test_a_task_that_is_cancelled_as_its_group_fails_ends() -> None:
    """CORRECTNESS E12: without the check it would continue, and so would every task that waits for its
    end."""
    broken = asyncio.Event()
    task = asyncio.get_running_loop().create_task(_for_ever(broken))
    for _ in range(3):
        await asyncio.sleep(0)
    broken.set()
    await asyncio.sleep(0)  # the part has failed, its group has not heard of it
    task.cancel()
    await eventually(task.done)
    assert task.cancelled()


async def test_the_failure_is_handed_over_and_the_others_are_cancelled() -> None:
    """Also out of a group of the part's own."""
    ended = False

    async def wait() -> None:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        finally:
            ended = True

    async def fail() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail_at_once())
            await wait()

    async def fail_at_once() -> None:
        raise _Broken("why")

    assert str(await until_failure((_Broken, KeyError), wait(), fail())) == "why"
    assert ended


async def test_an_unexpected_error_is_raised() -> None:
    """A defect is not taken for a broken stream, not even beside one."""

    async def fail() -> None:
        raise ExceptionGroup("both", [_Broken(), ZeroDivisionError()])

    with pytest.raises(ExceptionGroup):
        await until_failure(_Broken, fail())


async def test_a_task_may_catch_failures_repeatedly() -> None:
    """One that went on after a failure is not taken for cancelled."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise _Broken

    for _ in range(3):
        assert isinstance(await until_failure(_Broken, fail(), fail()), _Broken)


async def test_results_come_in_order_and_within_the_bound() -> None:
    """However long each takes."""
    running = most = 0

    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5 - number % 5):
            await asyncio.sleep(0)
        running -= 1
        return number * 2

    assert await pipelined(work, range(20), in_flight_max=3) == [number * 2 for number in range(20)]
    assert most == 3


async def test_the_first_failure_is_raised_as_it_is() -> None:
    """Not in a group: callers catch it by its type."""

    async def work(number: int) -> None:
        if number == 2:
            raise _Broken

    with pytest.raises(_Broken):
        await pipelined(work, range(5), in_flight_max=5)


async def test_a_caller_that_is_cancelled_as_an_item_fails_ends() -> None:
    """CORRECTNESS E12: a broker that began a session read who is alive as it lost the connection. It waited
    forever for the end of that read, and came never back (seed 1000137, 60 s)."""
    broken = asyncio.Event()

    async def work(_: int) -> None:
        await broken.wait()
        raise _Broken

    async def again_and_again() -> None:
        while True:
            with contextlib.suppress(_Broken):
                await pipelined(work, [1, 2], in_flight_max=2)
            broken.clear()

    task = asyncio.get_running_loop().create_task(again_and_again())
    for _ in range(3):
        await asyncio.sleep(0)
    broken.set()
    await asyncio.sleep(0)  # the items have failed, their group has not heard of it
    task.cancel()
    await eventually(task.done)
    assert task.cancelled()


async def test_a_group_that_was_caught_leaves_no_cancellation_behind() -> None:
    """On Python 3.11.2 brokers ended their shutdown by it: a chaos round in containers found it."""
    task = asyncio.current_task()
    assert task is not None

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            _ = tasks.create_task(fails())

    with pytest.raises(ExceptionGroup):
        await contained(group())
    assert task.cancelling() == 0
    with pytest.raises(ValueError):
        await pipelined(lambda _: fails(), [1, 2], in_flight_max=2)
    assert task.cancelling() == 0


@pytest.mark.parametrize("waits", [False, True], ids=["at-the-end", "within"])
async def test_a_caller_that_is_cancelled_as_a_caught_group_fails_ends(*, waits: bool) -> None:
    """CORRECTNESS E12: a broker that is asked to end as its session fails would begin another."""
    broken = asyncio.Event()

    async def fails() -> None:
        await broken.wait()
        raise _Broken

    async def session() -> None:
        async with asyncio.TaskGroup() as tasks:
            _ = tasks.create_task(fails())
            if waits:
                await asyncio.Event().wait()

    async def again_and_again() -> None:
        while True:
            try:
                await contained(session())
            except* _Broken:
                broken.clear()

    task = asyncio.get_running_loop().create_task(again_and_again())
    for _ in range(5):
        await asyncio.sleep(0)
    broken.set()
    await asyncio.sleep(0)  # the child has failed, its group has not heard of it
    task.cancel()
    await eventually(task.done)
    assert task.cancelled()


async def test_work_that_is_contained_ends_before_its_cancelled_caller() -> None:
    begun, ended = asyncio.Event(), []

    async def session() -> None:
        async with asyncio.TaskGroup() as tasks:
            begun.set()
            _ = tasks.create_task(asyncio.Event().wait())
        ended.append("past its group")  # a cancelled group does not come here

    async def work() -> int:
        try:
            await session()
        finally:
            ended.append("cleaned up")
        return 1

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(contained(work()))
        await begun.wait()
        waiting.cancel()
    assert waiting.cancelled()
    assert ended == ["cleaned up"]


async def test_the_first_of_parts_that_fail_together_is_raised() -> None:
    """The result does not depend on the order of a set of tasks."""

    async def fail(number: int) -> None:
        raise _Broken(number)

    for _ in range(10):
        failure = await until_failure(_Broken, *(fail(number) for number in range(8)))
        assert failure.args == (0,)
