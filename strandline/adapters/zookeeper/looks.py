"""Looks at ZooKeeper again whenever something may have changed there. A watch is a hint: it may be lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from strandline.ports import Clock, ConnectionLost

LOOK_AGAIN_S: Final = 0.1
"""The pause after a look that lost its connection."""


class Looks:
    """Calls `look` once for all changes that came since it began last. `run` is its task."""

    def __init__(self, look: Callable[[], Awaitable[None]], clock: Clock) -> None:
        self._look = look
        self._clock = clock
        self._changed = asyncio.Event()

    def again(self) -> None:
        """Have `run` look, soon."""
        self._changed.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._look()
            except ConnectionLost:
                await self._clock.sleep(LOOK_AGAIN_S)
                self._changed.set()
