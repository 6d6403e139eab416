"""Crash points belong to the process that armed them, though several share one event loop."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from strandline.adapters.service_host import service_host
from strandline.adapters.system.crash_points import arm, crash_point, defect_point
from strandline.errors import SettingsError

THREADS = service_host().threads


class Dead(BaseException):
    """Ends a process of these tests."""


def die() -> NoReturn:
    raise Dead


async def passes(armed: str, point: str) -> int:
    """How often a process with these points armed gets past one of five, on its loop and in threads."""
    arm(armed, die)
    for number in range(5):
        try:
            if number % 2:
                crash_point(point)
            else:
                await THREADS.run(crash_point, point)
        except Dead:
            return number
    return 5


async def test_each_process_dies_at_the_pass_that_it_armed() -> None:
    async with asyncio.TaskGroup() as tasks:
        third = tasks.create_task(passes("a:3, b", "a"))
        first = tasks.create_task(passes("a:3, b", "b"))
        none = tasks.create_task(passes("a:3, b", "c"))
        other = tasks.create_task(passes("", "b"))
    assert [each.result() for each in (third, first, none, other)] == [2, 0, 5, 5]
    crash_point("b")


async def test_a_defect_point_breaks_an_invariant() -> None:
    async def process() -> str:
        arm("here", die)
        defect_point("elsewhere")
        with pytest.raises(AssertionError) as raised:
            defect_point("here")
        return str(raised.value)

    async with asyncio.TaskGroup() as tasks:
        error = tasks.create_task(process())
    assert error.result() == "defect point here is armed"


def test_a_count_is_a_number() -> None:
    with pytest.raises(SettingsError, match="'often' is not a count"):
        arm("a:often", die)
