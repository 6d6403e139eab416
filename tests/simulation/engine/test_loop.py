"""The event loop on virtual time: what is ready, what is due, what is dead, what is paused."""

from __future__ import annotations

import asyncio
import gc
from random import Random
from types import CoroutineType

import pytest

from strandline.simulation.engine.clocks import MachineClock, SimulatedClock
from strandline.simulation.engine.loop import (
    Deadlock,
    Process,
    SimulatedLoop,
    TimeStandsStill,
    current_process,
)


def process(name: str = "p", rate: float = 1.0) -> Process:
    return Process(name, "10.0.0.1", MachineClock(rate))


def test_time_jumps_to_the_next_timer(loop: SimulatedLoop) -> None:
    async def work() -> list[float]:
        times = [loop.time()]
        await asyncio.sleep(3600)
        times.append(loop.time())
        async with asyncio.timeout(10):
            await asyncio.sleep(5)
        times.append(loop.time())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.Event().wait()
        return [*times, loop.time()]

    assert loop.run(work()) == pytest.approx([0, 3600, 3605, 3606])


def test_callbacks_run_in_order_and_timers_by_time(loop: SimulatedLoop) -> None:
    ran: list[str] = []

    async def work() -> None:
        loop.call_later(0.002, ran.append, "third")
        loop.call_later(0.001, ran.append, "first")
        loop.call_later(0.001, ran.append, "second")
        loop.call_later(0.001, ran.append, "cancelled").cancel()
        loop.call_soon(ran.append, "at once")
        await asyncio.sleep(0.003)

    loop.run(work())
    assert ran == ["at once", "first", "second", "third"]


def test_a_timer_never_fires_before_the_clock_says_so(loop: SimulatedLoop) -> None:
    """Code that sleeps until a deadline and looks at the clock again would wait forever in no time."""
    machine = MachineClock(1.000_123, started_ns=-123_456_789_012)
    clock = SimulatedClock(machine, loop.now_ns)

    async def work() -> None:
        random = Random(2)
        for _ in range(1000):
            deadline = clock.monotonic() + random.random()
            await clock.sleep(deadline - clock.monotonic())
            assert clock.monotonic() >= deadline

    loop.run(asyncio.wait_for(work(), None))
    _ = loop.start(Process("p", "10.0.0.1", machine), work())
    loop.run(asyncio.sleep(2000))


def test_a_killed_process_runs_no_finally(loop: SimulatedLoop) -> None:
    ran: list[str] = []

    async def inner(name: str) -> None:
        try:
            await asyncio.sleep(2)
            ran.append(f"{name} slept")
        finally:
            ran.append(f"{name} finally")

    async def nested(name: str) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(inner(name))
            tasks.create_task(inner(name))

    async def work() -> None:
        killed, other = process("killed"), process("other")
        for each in (killed, other):
            _ = loop.start(each, nested(each.name))
        await asyncio.sleep(1)
        loop.kill(killed)
        del killed, each  # nothing but the loop knows it now
        gc.collect()
        await asyncio.sleep(2)
        gc.collect()

    loop.run(work())
    assert ran == ["other slept", "other finally"] * 2


def test_a_paused_process_does_later_what_came_due(loop: SimulatedLoop) -> None:
    ran: list[tuple[str, float]] = []
    paused = process()

    async def ticking() -> None:
        assert current_process() is paused
        for number in range(3):
            await asyncio.sleep(1)
            ran.append((f"tick {number}", round(loop.now_ns() / 1e9, 3)))

    async def work() -> None:
        _ = loop.start(paused, ticking())
        await asyncio.sleep(1.5)
        loop.pause(paused)
        loop.call_soon(ran.append, ("from outside", 5.0), context=paused.context)
        await asyncio.sleep(3.5)
        loop.resume(paused)
        await asyncio.sleep(10)

    loop.run(work())
    assert ran == [("tick 0", 1.0), ("from outside", 5.0), ("tick 1", 5.0), ("tick 2", 6.0)]


def test_each_process_has_its_own_rate_of_time(loop: SimulatedLoop) -> None:
    fast = process(rate=2.0)
    ended: list[float] = []

    async def sleep() -> None:
        began = loop.time()
        await asyncio.sleep(10)
        assert loop.time() - began == pytest.approx(10)
        async with asyncio.timeout(10):
            await asyncio.sleep(9)
        ended.append(loop.now_ns() / 1e9)

    _ = loop.start(fast, sleep())
    loop.run(asyncio.sleep(20))
    assert ended == [pytest.approx(9.5)]


def test_a_run_that_never_ends_is_reported(loop: SimulatedLoop) -> None:
    with pytest.raises(Deadlock):
        loop.run(asyncio.wait_for(asyncio.Event().wait(), None))

    def spin() -> None:
        loop.call_soon(spin)

    loop.callbacks_at_one_moment_max = 1000
    with pytest.raises(TimeStandsStill):
        spin()
        loop.run(asyncio.sleep(1))


def test_a_function_for_a_thread_runs_a_little_later(loop: SimulatedLoop) -> None:
    ran: list[str] = []

    def function() -> str:
        ran.append("in the thread")
        return "result"

    def failing() -> None:
        raise OSError("disk")

    async def work() -> str:
        running = asyncio.to_thread(function)
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(running)
            await asyncio.sleep(0)
            ran.append("meanwhile")
        with pytest.raises(OSError, match="disk"):
            await asyncio.to_thread(failing)
        return task.result()

    assert loop.run(work()) == "result"
    assert ran == ["meanwhile", "in the thread"]


def test_sets_of_tasks_have_one_order() -> None:
    def order(garbage: int) -> list[str]:
        loop = SimulatedLoop.new(Random(1))
        kept = [object() for _ in range(garbage)]

        async def work() -> list[str]:
            tasks = {loop.create_task(asyncio.sleep(0), name=str(number)) for number in range(20)}
            futures = {loop.create_future(): str(number) for number in range(3)}
            done, _ = await asyncio.wait(tasks)
            return [task.get_name() for task in done] + [futures[each] for each in set(futures)]

        names = loop.run(work())
        loop.close()
        assert len(kept) == garbage
        return names

    assert order(0) == order(1001) == order(77)


def test_an_error_of_a_process_goes_to_its_own_handler(loop: SimulatedLoop) -> None:
    heard: list[str] = []
    one, two = process("one"), process("two")

    async def fail(name: str) -> None:
        loop.set_exception_handler(lambda _, context: heard.append(f"{name}: {context['exception']}"))
        loop.call_soon(int, "x")
        await asyncio.sleep(1)

    _ = loop.start(one, fail("one"))
    _ = loop.start(two, fail("two"))
    loop.run(asyncio.sleep(2))
    assert heard == [
        "one: invalid literal for int() with base 10: 'x'",
        "two: invalid literal for int() with base 10: 'x'",
    ]


def test_tasks_that_begin_as_others_are_unwound_are_unwound_as_well() -> None:
    loop, begun = SimulatedLoop.new(Random(1)), list[asyncio.Task[None]]()

    async def rest() -> None:
        await asyncio.sleep(1)

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            begun.append(loop.create_task(rest()))

    _ = loop.start(process("one"), work())
    loop.run(asyncio.sleep(1))
    loop.close()
    [task] = begun
    coroutine = task.get_coro()
    assert isinstance(coroutine, CoroutineType)
    assert coroutine.cr_frame is None
