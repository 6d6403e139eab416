"""A clock for tests of what is decided by time."""

from __future__ import annotations


class HandClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return round(self.now_s * 1000)

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
