"""Changes end by themselves, and not because their callers leave (A15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from strandline.errors import InvalidRequest, NotController, OutcomeUnknown, StrandlineError
from strandline.serving.carried_out import CHANGES_IN_PROGRESS_MAX, Changes


@pytest.fixture
async def changes() -> AsyncIterator[Changes]:
    made = Changes()
    async with asyncio.TaskGroup() as tasks:
        with made.accepted(tasks):
            yield made


async def test_a_caller_that_leaves_does_not_end_its_change(changes: Changes) -> None:
    may_end, ended = asyncio.Event(), asyncio.Event()

    async def change() -> None:
        await may_end.wait()
        ended.set()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(changes.carry_out(change), 0.01)
    may_end.set()
    await ended.wait()


async def test_its_result_and_its_refusal_reach_the_caller(changes: Changes) -> None:
    async def answer() -> int:
        return 42

    async def refuse() -> int:
        raise InvalidRequest("no")

    assert await changes.carry_out(answer) == 42
    with pytest.raises(InvalidRequest, match="no"):
        await changes.carry_out(refuse)
    assert await changes.carry_out(answer) == 42


async def test_callers_that_leave_do_not_make_changes_without_end(changes: Changes) -> None:
    """One more than the bound waits, and a caller that leaves then has changed nothing."""
    may_end, full, begun = asyncio.Event(), asyncio.Event(), 0

    async def change() -> None:
        nonlocal begun
        begun += 1
        if begun == CHANGES_IN_PROGRESS_MAX:
            full.set()
        await may_end.wait()

    async with asyncio.TaskGroup() as tasks:
        callers = [tasks.create_task(changes.carry_out(change)) for _ in range(CHANGES_IN_PROGRESS_MAX + 1)]
        await full.wait()
        for caller in callers:
            caller.cancel()
    assert begun == CHANGES_IN_PROGRESS_MAX
    may_end.set()
    await changes.carry_out(change)
    assert begun == CHANGES_IN_PROGRESS_MAX + 1


async def test_the_end_of_their_group_ends_them_and_their_callers_learn_it() -> None:
    """Those that come later are not begun."""
    changes, begun = Changes(), asyncio.Event()

    async def change() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def serve() -> None:
        async with asyncio.TaskGroup() as tasks:
            with changes.accepted(tasks):
                await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(serve())
        await asyncio.sleep(0)
        caller = tasks.create_task(_error_of(changes.carry_out(change)))
        await begun.wait()
        serving.cancel()
    assert isinstance(caller.result(), OutcomeUnknown)
    assert isinstance(await _error_of(changes.carry_out(change)), NotController)


async def _error_of(work: Coroutine[Any, Any, None]) -> StrandlineError | None:
    try:
        await work
    except StrandlineError as error:
        return error
    return None
