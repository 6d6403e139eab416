"""The time of a coroutine's own turns."""

from __future__ import annotations

import asyncio

import pytest

from strandline.turns import Turns
from tests.hand_clock import HandClock


async def test_only_the_turns_of_the_work_itself_count() -> None:
    """Not those of others while it waits; and what was asked is not counted again."""
    clock = HandClock()
    turns, goes_on = Turns(clock.monotonic), asyncio.Event()

    async def work() -> str:
        clock.now_s += 1
        await goes_on.wait()
        clock.now_s += 2
        assert turns.taken_s() == 3
        clock.now_s += 4
        return "done"

    async def run() -> None:
        assert await turns.of(work()) == "done"

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run())
        await asyncio.sleep(0)
        clock.now_s += 100
        goes_on.set()
    assert turns.taken_s() == 4
    assert turns.taken_s() == 0


async def test_a_cancellation_and_an_error_reach_the_work_and_its_caller() -> None:
    turns, seen = Turns(HandClock().monotonic), list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            seen.append("ended")

    async def run() -> None:
        await turns.of(work())

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run())
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
    assert seen == ["cancelled", "ended"]

    async def failing() -> None:
        await asyncio.sleep(0)
        raise LookupError("here")

    with pytest.raises(LookupError):
        await turns.of(failing())
