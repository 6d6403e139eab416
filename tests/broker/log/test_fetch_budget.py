"""Data that was read for clients and not yet written to them is bounded, for each client and for all
together."""

from __future__ import annotations

import asyncio

import pytest

from strandline.broker.log.fetch_budget import FetchBudget
from tests.waiting import DEADLINE_S, eventually


async def test_an_owner_that_gives_nothing_back_waits_for_itself_alone() -> None:
    budget = FetchBudget(of_one=10, of_all=100)
    assert await budget.take("slow", 8) == 8
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(budget.take("slow", 8))
        async with asyncio.timeout(DEADLINE_S):
            async with budget.taken("other", 10):
                assert budget.total == 18
        assert not waiting.done()
        budget.give_back("slow", 8)
        assert await waiting == 8


async def test_more_than_one_may_have_is_all_that_it_may_have() -> None:
    budget = FetchBudget(of_one=10, of_all=100)
    assert await budget.take("one", 1_000) == 10


async def test_an_owner_that_has_more_than_it_was_granted_waits_longer() -> None:
    """One batch may be seven times as large as what a fetch asks for."""
    budget = FetchBudget(of_one=10, of_all=100)
    async with asyncio.TaskGroup() as tasks:
        async with budget.taken("one", 3) as has:
            has(2)
            assert budget.total == 3, "what it has at least"
            has(12)
            assert budget.total == 12
            waiting = tasks.create_task(budget.take("one", 1))
            await asyncio.sleep(0)
            assert not waiting.done()
        assert await waiting == 1
    assert budget.total == 1


async def test_owners_at_the_bound_of_all_do_not_lock_out_one_that_has_nothing() -> None:
    budget = FetchBudget(of_one=10, of_all=20)
    for owner in ("a", "b"):
        await budget.take(owner, 10)
    async with asyncio.timeout(DEADLINE_S):
        assert await budget.take("c", 10) == 10
        assert await budget.take("d", 10) == 10
    assert budget.total == 40, "twice the bound, and no more"
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(budget.take("e", 10))
        await asyncio.sleep(0)
        assert not waiting.done()
        budget.give_back("a", 10)
        await waiting


@pytest.mark.parametrize("form", ["ipv4:192.0.2.{}:5", "kafka:192.0.2.{}:5", "ipv6:%5B2001:db8:{}::%5D:5"])
async def test_one_address_with_many_connections_does_not_lock_out_another(form: str) -> None:
    """Connections that never read their answers were enough, each with one answer, to stop all fetches."""
    budget = FetchBudget(of_one=10, of_all=20)
    async with asyncio.TaskGroup() as tasks:
        taking = [tasks.create_task(budget.take(f"{form.format(1)}{number}", 10)) for number in range(10)]
        await eventually(lambda: budget.total == 30, what="the part of one address is taken")
        async with asyncio.timeout(DEADLINE_S):
            async with budget.taken(form.format(2), 10):
                assert budget.total == 40
        for number in range(10):
            await taking[number]
            budget.give_back(f"{form.format(1)}{number}", 10)
    assert budget.total == 0 and not budget._of_address


async def test_a_wait_that_is_given_up_takes_nothing() -> None:
    budget = FetchBudget(of_one=10, of_all=10)
    await budget.take("a", 10)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(budget.take("a", 10))
        second = tasks.create_task(budget.take("a", 4))
        await asyncio.sleep(0)
        first.cancel()
        await eventually(first.done)
        budget.give_back("a", 10)
        assert await second == 4
    assert budget.total == 4


async def test_a_wait_that_is_given_up_as_it_ends_gives_back() -> None:
    budget = FetchBudget(of_one=10, of_all=10)
    await budget.take("a", 10)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(budget.take("a", 10))
        await asyncio.sleep(0)
        budget.give_back("a", 10)
        waiting.cancel()
    assert (waiting.cancelled(), budget.total) == (True, 0)


async def test_requests_for_nothing_take_and_give_back_nothing() -> None:
    """X6: a fetch may name no partition, and several may be in flight."""
    budget = FetchBudget(of_one=2, of_all=4)
    taken = [await budget.take("a", 0), await budget.take("a", 0)]
    for amount in taken:
        budget.give_back("a", amount)
    assert budget.total == 0
