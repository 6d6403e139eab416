"""Concurrent requests share looks at ZooKeeper, and none is answered from a look that began before it
(CORRECTNESS E8)."""

from __future__ import annotations

import asyncio
from collections.abc import Set

import pytest

from strandline.broker.metadata.shared_look import SharedLook
from strandline.errors import CoordinationError
from strandline.ports import ConnectionLost
from tests.waiting import eventually


class Looks:
    """What was looked at, and how each look ends once it may."""

    def __init__(self) -> None:
        self.begun: list[Set[str]] = []
        self.may_end = asyncio.Semaphore(0)
        self.away = False
        self.shared = SharedLook(self._look)

    async def _look(self, names: Set[str]) -> None:
        self.begun.append(names)
        await self.may_end.acquire()
        if self.away:
            raise ConnectionLost("away")


async def test_a_request_waits_for_a_look_that_began_after_it() -> None:
    """The one under way may have seen the topic before it grew."""
    looks = Looks()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(looks.shared.at({"a"}))
        await eventually(lambda: len(looks.begun) == 1)
        later = [tasks.create_task(looks.shared.at({name})) for name in ("a", "b", "a")]
        await asyncio.sleep(0)
        looks.may_end.release()
        await first
        await eventually(lambda: len(looks.begun) == 2)
        assert not any(each.done() for each in later)
        looks.may_end.release()
    assert looks.begun == [{"a"}, {"a", "b"}], "they share one look"


async def test_a_request_that_is_cancelled_takes_no_other_with_it() -> None:
    looks = Looks()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(looks.shared.at({"a"}))
        await eventually(lambda: len(looks.begun) == 1)
        later = [tasks.create_task(looks.shared.at({name})) for name in ("b", "c")]
        await asyncio.sleep(0)
        looks.may_end.release()
        await first
        await eventually(lambda: len(looks.begun) == 2)
        later[0].cancel()
        await eventually(lambda: len(looks.begun) == 3)
        looks.may_end.release()
    assert later[0].cancelled() and looks.begun[-1] == {"c"}


async def test_a_look_that_fails_fails_for_all_that_share_it() -> None:
    """Each waits for the link by its own deadline, and not for one look after the other."""
    looks = Looks()
    looks.away = True
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(refused(looks)) for _ in range(4)]
        await eventually(lambda: len(looks.begun) == 1)
        looks.may_end.release()
        await eventually(lambda: len(looks.begun) == 2)
        looks.may_end.release()
    assert all(each.result() for each in asked) and len(looks.begun) == 2


async def refused(looks: Looks) -> bool:
    with pytest.raises(CoordinationError, match="away"):
        await looks.shared.at({"a"})
    return True
