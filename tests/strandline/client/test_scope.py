"""Owns the tasks of a client."""

from __future__ import annotations

import asyncio

import pytest

from strandline.client.scope import Scope
from strandline.errors import AuthenticationFailed, InvalidRequest
from tests.waiting import DEADLINE_S


async def test_a_task_that_starts_another_while_the_client_stops_is_no_failure() -> None:
    """Between a stop and the cancellation that follows, a task may have one more turn."""
    failures: list[BaseException] = []
    scope = Scope("client", failures.append)
    await scope.start()
    go = asyncio.Event()

    async def other() -> None:
        await asyncio.Event().wait()

    async def starts_another() -> None:
        await go.wait()
        scope.spawn(other(), "other")

    scope.spawn(starts_another(), "one")
    await asyncio.sleep(0)
    go.set()
    await scope.stop()
    assert failures == []


async def test_a_caller_outside_of_the_tasks_of_a_stopped_client_gets_an_error() -> None:
    scope = Scope("client", lambda _: None)
    await scope.start()
    await scope.stop()

    async def work() -> None:
        return

    with pytest.raises(InvalidRequest, match="stopped"):
        scope.spawn(work(), "late")


async def test_the_error_that_failed_a_client_can_be_read() -> None:
    """Not that it was not started yet, or was stopped."""
    failed = asyncio.Event()
    scope = Scope("client", lambda _: failed.set())
    assert scope.error() is None
    await scope.start()
    assert scope.error() is None

    async def work() -> None:
        raise LookupError("gone")

    scope.spawn(work(), "work")
    await failed.wait()
    await asyncio.sleep(0)
    error = scope.error()
    assert isinstance(error, ExceptionGroup)
    assert [str(cause) for cause in error.exceptions] == ["gone"]
    with pytest.raises(ExceptionGroup):
        await scope.stop()
    assert scope.error() is error
    stopped = Scope("client", lambda _: None)
    await stopped.start()
    await stopped.stop()
    assert stopped.error() is None


async def test_a_typed_error_that_failed_a_client_is_raised_as_it_is() -> None:
    """An application catches the class that the pages name."""
    failed = asyncio.get_running_loop().create_future()
    scope = Scope("client", failed.set_result)
    await scope.start()

    async def work() -> None:
        raise AuthenticationFailed("refused")

    scope.spawn(work(), "work")
    assert isinstance(await failed, AuthenticationFailed)
    await asyncio.sleep(0)
    with pytest.raises(AuthenticationFailed):
        scope.check()
    with pytest.raises(AuthenticationFailed):
        await scope.stop()


@pytest.mark.parametrize("turns", range(1, 8))
async def test_a_caller_that_is_cancelled_while_a_client_stops_is_cancelled(turns: int) -> None:
    """Also if the client ends at the same moment: a feed that went on would never end."""
    scope = Scope("client", lambda _: None)
    await scope.start()

    async def stop_and_go_on() -> None:
        await scope.stop()
        await asyncio.Event().wait()

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        stopping = tasks.create_task(stop_and_go_on())
        for _ in range(turns):
            await asyncio.sleep(0)
        stopping.cancel()
    assert stopping.cancelled()


@pytest.mark.parametrize("turns", range(4))
async def test_a_client_that_is_cancelled_while_it_starts_leaves_no_task(turns: int) -> None:
    """A page that waits no longer cancels the clients that it has just begun to start."""
    before = asyncio.all_tasks()
    scope = Scope("client", lambda _: None)
    async with asyncio.TaskGroup() as tasks:
        starting = tasks.create_task(scope.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
    if not starting.cancelled():
        await scope.stop()
    if left := asyncio.all_tasks() - before:
        _, pending = await asyncio.wait(left, timeout=5)
        assert not pending
