"""The played world on real time, as the guest of a plain asyncio loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from strandline.adapters.system.clock import SystemClock
from strandline.simulation.engine.clocks import NS_PER_S, MachineClock
from strandline.simulation.engine.hosted_loop import CALLBACKS_IN_A_TURN_MAX, LATENESS_NS_MAX, HostedLoop
from strandline.simulation.engine.loop import Process, current_process
from tests.waiting import eventually


@pytest.fixture
async def guest() -> AsyncIterator[HostedLoop]:
    loop = HostedLoop.guest_of(asyncio.get_running_loop(), Random(1), SystemClock())
    yield loop
    loop.close()


def process(name: str) -> Process:
    return Process(name, name, MachineClock())


async def test_timers_run_in_their_order_and_not_early(guest: HostedLoop) -> None:
    ran: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        ran.append((name, asyncio.get_running_loop().time() - began - seconds))

    for name, seconds in (("late", 0.02), ("soon", 0.01), ("now", 0.0)):
        _ = guest.create_task(sleep(name, seconds))
    await eventually(lambda: len(ran) == 3)
    assert [name for name, _ in ran] == ["now", "soon", "late"]
    assert min(late for _, late in ran) >= 0


async def test_the_host_can_set_a_timer_in_the_name_of_a_process(guest: HostedLoop) -> None:
    ran: list[str] = []
    guest.call_at_ns(guest.now_ns() + 1, ran.append, "message", context=process("p").context)
    await eventually(lambda: ran)


async def test_both_loops_set_each_others_futures(guest: HostedLoop) -> None:
    question = guest.create_future()
    answer = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        answer.set_result(await question + 1)

    _ = guest.create_task(serve())
    question.set_result(41)
    assert await answer == 42


async def test_a_killed_process_runs_no_finally(guest: HostedLoop) -> None:
    killed, steps, gate = process("killed"), list[str](), guest.create_future()

    async def work() -> None:
        assert current_process() is killed
        try:
            steps.append("begun")
            await gate
        finally:
            steps.append("ended")

    _ = guest.start(killed, work())
    await eventually(lambda: steps)
    guest.kill(killed)
    gate.set_result(None)
    after = guest.create_task(asyncio.sleep(0.01))
    await eventually(after.done)
    assert steps == ["begun"]


async def test_a_paused_process_continues_when_it_is_resumed(guest: HostedLoop) -> None:
    paused, steps, gate = process("paused"), list[str](), guest.create_future()

    async def work() -> None:
        steps.append("begun")
        await gate
        steps.append("ended")

    _ = guest.start(paused, work())
    await eventually(lambda: steps)
    guest.pause(paused)
    gate.set_result(None)
    other = guest.create_task(asyncio.sleep(0.01))
    await eventually(other.done)
    assert steps == ["begun"]
    guest.resume(paused)
    await eventually(lambda: steps == ["begun", "ended"])


async def test_a_busy_guest_leaves_its_host_a_turn(guest: HostedLoop) -> None:
    ran = 0

    async def spin() -> None:
        nonlocal ran
        while True:
            ran += 1
            await asyncio.sleep(0)

    _ = guest.create_task(spin())
    await eventually(lambda: ran)
    before = ran
    await asyncio.sleep(0)
    assert 0 < ran - before <= 2 * CALLBACKS_IN_A_TURN_MAX


class HandClock:
    """Real time, as the test sets it."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return 0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def test_time_stops_while_the_host_is_blocked_and_never_goes_back() -> None:
    """A breakpoint of a minute ends no session."""
    clock = HandClock()
    guest = HostedLoop.guest_of(asyncio.get_running_loop(), Random(1), clock)
    seen: list[float] = []

    async def look() -> None:
        seen.append(asyncio.get_running_loop().time())

    guest.call_later(5.0, seen.append, -1.0)
    _ = guest.create_task(look())
    clock.now_s += 60.0
    blocked_ns = guest.now_ns()
    assert blocked_ns == LATENESS_NS_MAX
    await eventually(lambda: seen)
    assert [blocked_ns / 1e9] == seen
    clock.now_s += 4.0
    assert guest.now_ns() == blocked_ns + 4 * NS_PER_S
    guest.close()


async def test_nothing_runs_after_the_close(guest: HostedLoop) -> None:
    ran: list[str] = []
    guest.call_later(0.001, ran.append, "timer")
    guest.call_soon(ran.append, "soon")
    guest.close()
    guest.call_soon(ran.append, "after the close")
    await asyncio.sleep(0.005)
    assert ran == []
