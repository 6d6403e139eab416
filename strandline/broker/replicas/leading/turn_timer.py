"""Takes a turn of the commit loop at a moment, if none is due before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from strandline.adapters.system.crash_points import defect_point
from strandline.ports import Clock

TIMER_SLACK_S: Final = 0.001
"""A due turn is not rescheduled for a difference below this."""


class TurnTimer:
    """The timer of one leadership."""

    def __init__(self, clock: Clock, turn: Callable[[], None]) -> None:
        self._clock = clock
        self._turn = turn
        self._handle: asyncio.Handle | None = None
        # Kept separately: uvloop's handle of a callback that is due at once has no time.
        self._due = 0.0

    def set(self, moment: float | None) -> None:
        """Schedules a turn for this moment, in monotonic seconds, unless one is due before it."""
        if moment is None:
            return
        if self._handle is not None:
            if self._due <= moment + TIMER_SLACK_S:
                return
            self._handle.cancel()
        delay = max(0.0, moment - self._clock.monotonic())
        self._due = moment
        self._handle = asyncio.get_running_loop().call_later(delay, self._fired)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _fired(self) -> None:
        self._handle = None
        defect_point("leadership.timer")
        self._turn()
