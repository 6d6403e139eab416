"""The system's clock: the only module that reads one."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """The `Clock` of this machine. Its monotonic time includes suspended time, which a lease must count."""

    _source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def monotonic(self) -> float:
        return time.clock_gettime(self._source)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000  # noqa: TID251, this is the clock

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def thread_cpu_s() -> float:
    """Seconds for which the calling thread has had a processor."""
    return time.thread_time()
