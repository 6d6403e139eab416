"""Limits the rate of a client's steps."""

from __future__ import annotations

import asyncio
from typing import Final

from strandline.adapters.system.clock import SystemClock
from strandline.ports import Clock

SENDS_AHEAD_S_MAX: Final = 0.1
"""A client that fell behind its rate catches up at most this much in one burst."""


class Pace:
    """Allows `rate` steps a second on average, without long bursts to catch up. Without a rate, it allows as
    many as the client can make."""

    def __init__(self, rate: float | None, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._step = 0.0 if rate is None else 1 / rate
        self._due = self._clock.monotonic()

    async def stopped(self, stop: asyncio.Event) -> bool:
        """Waits until the next step is due. Returns True at once when `stop` is set."""
        now = self._clock.monotonic()
        self._due = max(self._due, now - SENDS_AHEAD_S_MAX)
        wait = self._due - now
        self._due += self._step
        if wait <= 0:
            # A client with no time to wait still lets its records go out.
            await asyncio.sleep(0)
            return stop.is_set()
        try:
            async with asyncio.timeout(wait):
                await stop.wait()
        except TimeoutError:
            return False
        return True
