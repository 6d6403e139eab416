"""One event loop in a thread of this process, for callers outside of any loop.

Spark calls sources and sinks from plain threads, repeatedly, in processes that are reused for several tasks;
gRPC's asyncio is bound to one loop of a process. So all of strandline's clients run on this loop, which
starts on first use and lives as long as the process.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

Result = TypeVar("Result")

END_S_MAX: Final = 2.0
"""How long a cancelled call, or the end of the process, waits for cleanup."""


class LoopThread:
    """An event loop in its own daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="strandline-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """Run a coroutine on the loop, and return or raise its result.

        Raises TimeoutError after `timeout_s` seconds. If the caller stops waiting, for that or another
        reason, the coroutine is cancelled, and given a moment to clean up. Raises RuntimeError when called on
        the loop's own thread, which would wait for itself.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("the loop's own thread cannot wait for the loop: await the coroutine there")
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the loop has been closed")
        called = _Call(work)
        try:
            return _result(asyncio.run_coroutine_threadsafe(called.run(), self._loop), timeout_s)
        except BaseException:
            called.abandon(self._loop)
            raise

    def close(self) -> None:
        """Cancel all tasks, and end the thread. No call is possible afterwards."""
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            done = asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop)
            _wait_for(done)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(END_S_MAX)
        if not self._loop.is_running():
            self._loop.close()


class _Call(Generic[Result]):
    """A coroutine whose caller may stop waiting at any moment, even before it began."""

    def __init__(self, work: Coroutine[Any, Any, Result]) -> None:
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._abandoned = False
        self._ended = threading.Event()

    async def run(self) -> Result:
        """The coroutine's result or error."""
        self._task = asyncio.current_task()
        try:
            if self._abandoned:
                raise asyncio.CancelledError
            return await self._work
        finally:
            self._work.close()
            self._ended.set()

    def abandon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the coroutine, and wait a moment for its cleanup. No effect if it has ended."""
        if not self._ended.is_set():
            loop.call_soon_threadsafe(self._cancel)
            self._ended.wait(END_S_MAX)

    def _cancel(self) -> None:
        self._abandoned = True
        if self._task is not None:
            self._task.cancel()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=END_S_MAX)


def _result(future: Future[Result], timeout_s: float | None) -> Result:
    try:
        return future.result(timeout_s)
    except TimeoutError:
        if future.done():
            raise  # the coroutine's own error
        raise TimeoutError(f"not done after {timeout_s} s") from None


def _wait_for(future: Future[None]) -> None:
    try:
        future.result(2 * END_S_MAX)
    except TimeoutError:
        return


# --- the loop of this process ---------------------------------------------------------------


class _Process:
    """The loop of this process: none at first, and none after a fork in the child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._of_parents: list[LoopThread] = []

    def loop_thread(self) -> LoopThread:
        with self._lock:
            if self._thread is None:
                self._thread = LoopThread()
                atexit.register(self._thread.close)
            return self._thread

    def forked(self) -> None:
        """Runs in a forked child, which has only the forking thread: the loop's is missing, and the lock may
        be held.

        The parent's loop is kept untouched: closing it would disturb the parent.
        """
        self._lock = threading.Lock()
        if self._thread is not None:
            atexit.unregister(self._thread.close)
            self._of_parents.append(self._thread)
            self._thread = None


_process: Final = _Process()
os.register_at_fork(after_in_child=_process.forked)


def loop_thread() -> LoopThread:
    """The loop of this process, started if necessary. From any thread."""
    return _process.loop_thread()


def call(work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
    """Run a coroutine on the loop of this process, from any other thread. Raises as `LoopThread.call`."""
    return _process.loop_thread().call(work, timeout_s)
