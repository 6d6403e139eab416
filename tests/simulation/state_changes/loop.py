"""An event loop whose time passes only when a test says so, and which stops when nothing is ready.

Everything that runs on it is ordinary asyncio code; the caller that turns the loop decides in which order the
outside world answers, and when timers are due.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any, Final

ROUNDS_MAX: Final = 10_000


class _Idle(selectors.SelectSelector):
    """Never waits: where it would, nothing is ready."""

    def __init__(self, on_idle: Callable[[], None]) -> None:
        super().__init__()
        self._on_idle = on_idle
        self.rounds = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.rounds += 1
        if self.rounds > ROUNDS_MAX:
            raise AssertionError("something runs forever while no time passes")
        if timeout is None or timeout > 0:
            self._on_idle()
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self.now = 0.0
        self.failures: list[str] = []
        """Failures of tasks that are not awaited."""
        self._idle = _Idle(self.stop)
        super().__init__(self._idle)
        self.set_exception_handler(lambda _, context: self.failures.append(str(context)))

    def time(self) -> float:
        return self.now

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Work for a thread is done at once."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except OSError as error:
            future.set_exception(error)
        return future

    def turn(self) -> None:
        """Run every ready callback, and those that become ready by it."""
        self._idle.rounds = 0
        self.run_forever()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.turn()


class VirtualClock:
    """Fulfils `Clock`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.now

    def wall_ms(self) -> int:
        return 1_000_000 + int(self._loop.now * 1000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
