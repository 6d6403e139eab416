"""One loop a process for callers without one: results, errors, deadlines, interruptions, forks."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import TypeVar

import pytest

from strandline.pipeline.loop_thread import LoopThread, call, loop_thread

T = TypeVar("T")


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


class Work:
    """A coroutine that waits forever, and reports its begin and its end."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.cleaned = False

    async def run(self) -> None:
        try:
            self.began.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # cleaning up awaits, too
            self.cleaned = True


async def loop_of_caller() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def given(value: T) -> T:
    await asyncio.sleep(0)
    return value


async def fail() -> None:
    raise LookupError("this")


def test_results_and_errors_of_the_work_reach_the_caller(thread: LoopThread) -> None:
    assert thread.call(given("done"), 10) == "done"
    with pytest.raises(LookupError, match="this"):
        thread.call(fail())


def test_all_threads_of_a_process_share_one_loop() -> None:
    with ThreadPoolExecutor(8) as pool:
        loops = set(pool.map(lambda _: call(loop_of_caller()), range(64)))
    assert len(loops) == 1


def test_work_that_takes_too_long_is_cancelled_and_has_cleaned_up(thread: LoopThread) -> None:
    work = Work()
    with pytest.raises(TimeoutError, match=r"not done after 0\.05 s"):
        thread.call(work.run(), 0.05)
    assert work.cleaned


def test_the_works_own_timeout_is_not_taken_for_the_callers(thread: LoopThread) -> None:
    async def times_out() -> None:
        raise TimeoutError("of the work")

    with pytest.raises(TimeoutError, match="of the work"):
        thread.call(times_out(), 10)


def test_an_interrupted_caller_leaves_nothing_running(thread: LoopThread) -> None:
    """Ctrl-C in a notebook ends what was asked for, on the loop too."""
    work = Work()

    def interrupt() -> None:
        work.began.wait()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        thread.call(work.run())
    interrupter.join()
    assert work.cleaned


def test_work_that_was_cancelled_before_it_began_is_not_left_behind(thread: LoopThread) -> None:
    """The loop is busy for longer than the caller waits: the work never starts, and nothing warns of it."""
    busy, go_on = threading.Event(), threading.Event()

    async def hold() -> None:
        busy.set()
        go_on.wait()

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(thread.call, hold())
        busy.wait()
        work = Work()
        with pytest.raises(TimeoutError):
            thread.call(work.run(), 0.01)
        go_on.set()
        holding.result()
    assert thread.call(given("still there")) == "still there"
    assert not work.began.is_set()


def test_the_loops_own_thread_gets_an_error_rather_than_a_deadlock(thread: LoopThread) -> None:
    async def ask() -> None:
        thread.call(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="cannot wait for the loop"):
        thread.call(ask(), 10)


def test_a_forked_process_has_a_loop_of_its_own() -> None:
    """Spark forks its workers: one that waited for its parent's loop would wait forever."""
    call(asyncio.sleep(0))
    parents = loop_thread()
    child = os.fork()
    if child == 0:
        try:
            fine = call(given(7), 20) == 7 and loop_thread() is not parents
        except BaseException:
            fine = False
        os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert call(given("parent"), 20) == "parent"


def test_closing_cancels_what_runs_and_is_done_twice_without_harm() -> None:
    thread, work = LoopThread(), Work()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(thread.call, work.run())
        work.began.wait()
        thread.close()
        assert isinstance(waiting.exception(), CancelledError)
    thread.close()
    assert work.cleaned
    with pytest.raises(RuntimeError, match="closed"):
        thread.call(asyncio.sleep(0))
