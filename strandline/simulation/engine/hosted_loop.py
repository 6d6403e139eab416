"""A `SimulatedLoop` on real time: the guest of a plain asyncio loop, in whose thread it runs.

The played world runs on it unchanged, and processes can still be killed and paused between any two callbacks.
Clients run on the hosting loop: the two loops only set each other's futures, and both are in one thread.

While the hosting loop is blocked, by a busy machine or at a breakpoint, the time of this one stops: sessions
would end otherwise, since no process could keep them alive.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import Final, Self

from strandline.ports import Clock
from strandline.simulation.engine.clocks import NS_PER_S
from strandline.simulation.engine.loop import Process, SimulatedLoop, _Handle

CALLBACKS_IN_A_TURN_MAX: Final = 1_000
"""After this number of callbacks in one turn the loop that hosts this one gets its turn."""
LATENESS_NS_MAX: Final = 200_000_000
"""A turn may be late by this time, or take it; the time of this loop stops then."""
ENDLESS_NS: Final = 2**63


class HostedLoop(SimulatedLoop):
    """`guest_of` makes one. It runs whenever the hosting loop does, until `close`."""

    @classmethod
    def guest_of(cls, hosting: asyncio.AbstractEventLoop, random: Random, clock: Clock) -> Self:
        """`random` draws when functions for other threads run; `clock` has the real time."""
        return cls(hosting, random, clock)

    def __init__(self, hosting: asyncio.AbstractEventLoop, random: Random, clock: Clock) -> None:
        super().__init__(random)
        self._hosting = hosting
        self._clock = clock
        self._began_s = clock.monotonic()
        self._stopped_ns = 0
        """For how long time has stood still."""
        self._limit_ns = ENDLESS_NS
        """Where time stops until the next turn."""
        self._woken: asyncio.Handle | None = None
        """The next turn."""
        self._woken_ns = 0
        """When it is due, at the latest."""

    @property
    def hosting(self) -> asyncio.AbstractEventLoop:
        """The loop of which this one is a guest."""
        return self._hosting

    def now_ns(self) -> int:
        return min(self._flowing_ns(), self._limit_ns)

    def _flowing_ns(self) -> int:
        return int((self._clock.monotonic() - self._began_s) * NS_PER_S) - self._stopped_ns

    def _limit(self, limit_ns: int) -> None:
        """Set where time stops next. It goes on from where it stopped."""
        self._stopped_ns += max(0, self._flowing_ns() - self._limit_ns)
        self._limit_ns = limit_ns

    # --- schedule ----------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        handle = super().call_soon(callback, *args, context=context)
        self._wake_at(0)
        return handle

    def call_at_ns(
        self, when_ns: int, callback: Callable[..., object], *args: object, context: Context
    ) -> asyncio.TimerHandle:
        timer = super().call_at_ns(when_ns, callback, *args, context=context)
        self._wake_at(when_ns)
        return timer

    def _at(self, when_ns: int, handle: _Handle) -> asyncio.TimerHandle:
        timer = super()._at(when_ns, handle)
        self._wake_at(when_ns)
        return timer

    def resume(self, process: Process) -> None:
        super().resume(process)
        self._wake_at(0)

    def _wake_at(self, when_ns: int) -> None:
        """Take a turn at this time or earlier. A turn that runs decides at its end when the next one is."""
        if self._running or self._closed:
            return
        if self._woken is not None:
            if self._woken_ns <= when_ns:
                return
            self._woken.cancel()
        now_ns = self.now_ns()
        self._woken_ns = max(when_ns, now_ns)
        self._limit(self._woken_ns + LATENESS_NS_MAX)
        if when_ns <= now_ns:
            self._woken = self._hosting.call_soon(self._take_turn, context=Context())
        else:
            after_s = (when_ns - now_ns) / NS_PER_S
            self._woken = self._hosting.call_later(after_s, self._take_turn, context=Context())

    # --- run ---------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        """Run what is ready and due, up to a limit."""
        self._woken = None
        self._limit(self.now_ns() + LATENESS_NS_MAX)
        with self._current():
            for _ in range(CALLBACKS_IN_A_TURN_MAX):
                if not self._ready:
                    self._take_due()
                    if not self._ready:
                        break
                self._step(self._ready.popleft())
        self._limit(ENDLESS_NS)
        if self._ready:
            self._wake_at(0)
        elif self._timers:
            self._wake_at(self._timers[0][0])

    def _take_due(self) -> None:
        """Make timers ready that are due, and forget cancelled ones that are next."""
        now_ns, timers = self.now_ns(), self._timers
        while timers and (timers[0][0] <= now_ns or timers[0][2].cancelled()):
            self._ready.append(heapq.heappop(timers)[2])

    def close(self) -> None:
        super().close()
        if self._woken is not None:
            self._woken.cancel()
