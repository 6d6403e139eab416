"""A listener that fails, hangs or turns round on its consumer costs the rebalance nothing (G10)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from strandline.consumer.group.listener import Listening, RebalanceListener
from strandline.errors import InvalidRequest
from strandline.ids import TopicPartition

A = TopicPartition("t", 0)


class Does(RebalanceListener):
    """Runs the test's function on each assignment."""

    def __init__(self, what: Callable[[], Awaitable[None]]) -> None:
        self._what = what

    async def on_assigned(self, added: set[TopicPartition]) -> None:
        await self._what()


def listening(what: Callable[[], Awaitable[None]], limit_s: float = 60) -> tuple[Listening, list[Exception]]:
    raised: list[Exception] = []
    calls = Listening(raised.append, limit_s=limit_s)
    calls.listener = Does(what)
    return calls, raised


async def cancelled_task() -> None:
    """Waits for a task that another one cancels."""
    async with asyncio.TaskGroup() as tasks:
        waited_for = tasks.create_task(asyncio.Event().wait())
        waited_for.cancel()
        await waited_for


async def test_an_error_of_a_listener_skips_no_later_call() -> None:
    """G10: it is kept for the next get call, and the next callback is called."""

    async def fail() -> None:
        raise ValueError("broken")

    calls, raised = listening(fail)
    await calls.assigned([A])
    await calls.assigned([A])
    assert [str(error) for error in raised] == ["broken", "broken"]


async def test_a_cancelled_wait_of_a_listener_does_not_stop_the_rebalance() -> None:
    """G10: a CancelledError that was not meant for the consumer is a listener's error like any other."""
    calls, raised = listening(cancelled_task)
    await calls.assigned([A])
    (error,) = raised
    assert "Does.on_assigned waited for what was cancelled" in str(error)
    task = asyncio.current_task()
    assert task is not None and not task.cancelling()


async def test_a_consumer_that_ends_is_not_kept_by_its_listener() -> None:
    """The cancellation of the consumer's own task is no error of the listener's: it passes through."""
    waiting = asyncio.Event()

    async def wait() -> None:
        waiting.set()
        await asyncio.Event().wait()

    calls, raised = listening(wait)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(calls.assigned([A]))
        await waiting.wait()
        running.cancel()
    assert running.cancelled() and raised == []


async def test_a_listener_that_never_returns_is_cancelled_and_named(caplog: pytest.LogCaptureFixture) -> None:
    """G10: the rebalance, or the close, continues without it, and the application learns which one it was."""

    async def wait() -> None:
        await asyncio.Event().wait()

    calls, raised = listening(wait, limit_s=0.01)
    with caplog.at_level(logging.WARNING):
        await calls.assigned([A])
    (error,) = raised
    assert isinstance(error, TimeoutError) and "Does.on_assigned" in str(error)
    assert "Does.on_assigned is cancelled" in caplog.text


async def test_a_timeout_of_the_listeners_own_is_its_own_error() -> None:
    async def too_slow() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    calls, raised = listening(too_slow)
    await calls.assigned([A])
    (error,) = raised
    assert isinstance(error, TimeoutError) and "did not return" not in str(error)


async def test_calls_that_wait_for_the_listener_are_refused_within_it() -> None:
    """In a task that the listener waits for, too; but not in one that outlives the call, nor elsewhere."""
    returned = asyncio.Event()

    async def check() -> None:
        calls.check_outside("stop its consumer")

    async def later() -> None:
        await returned.wait()
        await check()

    async def inside() -> None:
        with pytest.raises(InvalidRequest, match="a listener cannot stop its consumer"):
            await check()
        with pytest.raises(InvalidRequest, match="a listener cannot stop its consumer"):
            await asyncio.wait_for(check(), 60)
        tasks.create_task(later())
        await asyncio.wait_for(elsewhere_is_free(), 60)

    async def elsewhere_is_free() -> None:
        other.check_outside("stop its consumer")

    other, _ = listening(inside)
    calls, raised = listening(inside)
    async with asyncio.TaskGroup() as tasks:
        await calls.assigned([A])
        assert raised == []
        await check()
        returned.set()


async def test_a_close_shortens_the_call_that_runs_and_those_that_follow() -> None:
    """A listener that hangs holds a close for seconds, and not for `max_poll_interval_ms`."""

    async def hang() -> None:
        await asyncio.Event().wait()

    calls, raised = listening(hang, limit_s=300)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(calls.assigned([A]))
        await asyncio.sleep(0)
        calls.shorten(0.01)
        await running
        await calls.assigned([A])
    assert [str(error) for error in raised] == [
        "the listener's Does.on_assigned did not return within 0 s"
    ] * 2
