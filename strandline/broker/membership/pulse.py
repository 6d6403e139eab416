"""Ticks ten times a second for the streams to other brokers, and knows whether this process ran on time.

A broker that was stopped, or that found no core, hears nothing either. So a silence counts only while the
event loop of this process ran on time: each late tick begins the count anew (CORRECTNESS E19).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from strandline.ports import Clock

logger = structlog.get_logger(__name__)

TICK_S: Final = 0.1
LATE_S: Final = 0.1
"""A tick that is late by this much says that this process, and not another one, stood still."""
BEAT_S: Final = 0.2
"""A leader sends each follower a message at least this often, and one without records if it has none."""
ANSWER_S: Final = 0.3
"""A follower sends its leader a message at least this often. A beat of the leader comes first, and its
acknowledgement is such a message: only a follower that is busy, or that a message takes long to reach, has to
send another one."""


class Pulse:
    """The ticks of one process. `run` is its task; the other methods never await."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: dict[Callable[[float], None], None] = {}
        self._ticked = self._steady_since = clock.monotonic()
        self.late = 0
        """Ticks that came late."""

    def listen(self, listener: Callable[[float], None]) -> None:
        """Call `listener` with the time at each tick."""
        self._listeners[listener] = None

    def unlisten(self, listener: Callable[[float], None]) -> None:
        self._listeners.pop(listener, None)

    def silent_s(self, heard_at: float) -> float:
        """How long nothing was heard, if the last message came at `heard_at`: as far as this process ran on
        time and could have heard it."""
        now = self._clock.monotonic()
        if self._is_late(now):
            return 0.0
        return now - max(heard_at, self._steady_since)

    def _is_late(self, now: float) -> bool:
        return now - self._ticked >= TICK_S + LATE_S

    async def run(self) -> None:
        """Ticks until it is cancelled."""
        self._ticked = self._steady_since = self._clock.monotonic()
        while True:
            await self._clock.sleep(TICK_S)
            self.tick()

    def tick(self) -> None:
        """Notes whether this process ran on time since the last tick, and calls the listeners."""
        now = self._clock.monotonic()
        if self._is_late(now):
            self._steady_since = now
            self.late += 1
            logger.debug("late: silences count anew", late_ms=round((now - self._ticked - TICK_S) * 1000))
        self._ticked = now
        for listener in tuple(self._listeners):
            listener(now)
