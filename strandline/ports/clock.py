"""The clock."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """A clock. `monotonic` never goes back and counts suspended time; `wall_ms` may jump."""

    def monotonic(self) -> float:
        """Seconds since a fixed moment."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...

    async def sleep(self, seconds: float) -> None: ...
