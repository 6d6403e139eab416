"""The clocks of the simulated machines: each has its own zero, its own rate and its own idea of the date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

NS_PER_S: Final = 1_000_000_000


@dataclass(slots=True, eq=False)
class MachineClock:
    """Converts between the time of the world and the monotonic time of one machine.

    World time is a count of nanoseconds since the simulation began. The machine's time is in seconds.
    """

    rate: float = 1.0
    """Seconds that pass on the machine in one second of the world."""
    started_ns: int = 0
    """When the machine was switched on: its monotonic time is 0 then."""
    wall_ms_at_zero: int = 0
    """What the machine takes for the Unix time, in milliseconds, when its monotonic time is 0."""

    def seconds(self, now_ns: int) -> float:
        """The machine's monotonic time."""
        return (now_ns - self.started_ns) * self.rate / NS_PER_S

    def world_ns(self, seconds: float) -> int:
        """The first nanosecond at which the machine's monotonic time has surely passed `seconds`."""
        return self.started_ns + int(seconds * NS_PER_S / self.rate) + 1

    def wall_ms(self, now_ns: int) -> int:
        return self.wall_ms_at_zero + int(self.seconds(now_ns) * 1000)

    def jump(self, milliseconds: int) -> None:
        """Set the date forward, or back if negative. Monotonic time does not change."""
        self.wall_ms_at_zero += milliseconds


class SimulatedClock:
    """The `Clock` of a process on a machine."""

    def __init__(self, machine: MachineClock, now_ns: Callable[[], int]) -> None:
        self._machine = machine
        self._now_ns = now_ns

    def monotonic(self) -> float:
        machine = self._machine
        return (self._now_ns() - machine.started_ns) * machine.rate / NS_PER_S

    def wall_ms(self) -> int:
        return self._machine.wall_ms(self._now_ns())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
