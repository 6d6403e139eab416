"""The requests to ZooKeeper that are not answered yet.

A server answers the pings of a session also while it waits for its disk, so a session may be alive while
nothing is written. A request waits for as long as its session lives: if that is long, a line says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog

logger = structlog.get_logger(__name__)

UNANSWERED_S: Final = 3.0
"""A connected server that takes longer to answer is worth a line."""
SAID_EVERY_S: Final = 60.0


class Pending:
    """The requests of one session, the oldest first. `is_connected`: whether the session is."""

    def __init__(self, loop: asyncio.AbstractEventLoop, is_connected: Callable[[], bool]) -> None:
        self._loop = loop
        self._is_connected = is_connected
        self._asked: dict[asyncio.Future[Any], tuple[float, str]] = {}
        """For each when it was asked, and what."""
        self._timer: asyncio.TimerHandle | None = None
        self._say_at = 0.0

    @property
    def waited_s(self) -> float:
        """How long the oldest of them has waited; 0 without one."""
        return max(0.0, self._loop.time() - next(iter(self._asked.values()))[0]) if self._asked else 0.0

    def add(self, what: str) -> asyncio.Future[Any]:
        """The answer to a request that is about to be sent."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._asked[future] = (self._loop.time(), what)
        if self._timer is None:
            self._timer = self._loop.call_later(UNANSWERED_S, self._look)
        return future

    def remove(self, future: asyncio.Future[Any]) -> None:
        self._asked.pop(future, None)

    def fail(self, error: Exception) -> None:
        """None of them will be answered."""
        for future in self._asked:
            if not future.done():
                future.set_exception(error)
        self._asked.clear()

    def _look(self) -> None:
        self._timer = None
        if not self._asked:
            return
        now, waited_s = self._loop.time(), self.waited_s
        left_s = UNANSWERED_S - waited_s
        self._timer = self._loop.call_later(left_s if left_s > 0 else UNANSWERED_S, self._look)
        if waited_s >= UNANSWERED_S and now >= self._say_at and self._is_connected():
            self._say_at = now + SAID_EVERY_S
            _, what = next(iter(self._asked.values()))
            logger.warning(
                "ZooKeeper does not answer", seconds=round(waited_s), request=what, waiting=len(self._asked)
            )
