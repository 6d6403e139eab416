"""What is read for clients and not written to them is bounded, for each and for all together."""

from __future__ import annotations

import asyncio

from strandline.broker.log.read_memory import Room
from tests.waiting import eventually


async def test_an_owner_that_gives_nothing_back_waits_for_itself_alone() -> None:
    room = Room(of_one=10, of_all=100)
    assert await room.take("slow", 8) == 8
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(room.take("slow", 8))
        async with asyncio.timeout(5):
            async with room.taken("other", 10):
                assert room.total == 18
        assert not waiting.done()
        room.give_back("slow", 8)
        assert await waiting == 8


async def test_more_than_one_may_have_is_all_that_it_may_have() -> None:
    room = Room(of_one=10, of_all=100)
    assert await room.take("one", 1_000) == 10


async def test_owners_at_the_bound_of_all_do_not_lock_out_one_that_has_nothing() -> None:
    room = Room(of_one=10, of_all=20)
    for owner in ("a", "b"):
        await room.take(owner, 10)
    async with asyncio.timeout(5):
        assert await room.take("c", 10) == 10
        assert await room.take("d", 10) == 10
    assert room.total == 40, "twice the bound, and no more"
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(room.take("e", 10))
        await asyncio.sleep(0)
        assert not waiting.done()
        room.give_back("a", 10)
        await waiting


async def test_a_wait_that_is_given_up_takes_nothing() -> None:
    room = Room(of_one=10, of_all=10)
    await room.take("a", 10)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(room.take("a", 10))
        second = tasks.create_task(room.take("a", 4))
        await asyncio.sleep(0)
        first.cancel()
        await eventually(first.done)
        room.give_back("a", 10)
        assert await second == 4
    assert room.total == 4


async def test_a_wait_that_is_given_up_as_it_ends_gives_back() -> None:
    room = Room(of_one=10, of_all=10)
    await room.take("a", 10)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(room.take("a", 10))
        await asyncio.sleep(0)
        room.give_back("a", 10)
        waiting.cancel()
    assert (waiting.cancelled(), room.total) == (True, 0)
