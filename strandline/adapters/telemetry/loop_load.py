"""How busy the event loop of a service is: the time of its thread on a processor, and how late timers are.

A loop that waits for the disk, for a processor or for another thread to give up the interpreter uses no
processor: its idle share does not show that, and the delay of its timers does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from strandline.adapters.system.clock import thread_cpu_s
from strandline.adapters.telemetry.metrics import Histogram, Sample, gauge, histogram
from strandline.ports import Clock

SAMPLED_EVERY_S: Final = 1.0
WINDOW_S: Final = 60
"""As the rates of Kafka's gauges that are for one minute."""

_IDLE: Final = (
    "The share of the last minute, 0 to 1, in which the thread of the event loop used no processor{}."
)
IDLE_NETWORK: Final = gauge(
    "kafka_network_socketserver_networkprocessoravgidlepercent",
    _IDLE.format(": one loop does what Kafka's network and request threads do, so both names have its value"),
)
IDLE_HANDLERS: Final = gauge(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent", _IDLE.format("")
)
DELAY_MS: Final = histogram(
    "strandline_event_loop_delay_ms",
    "How late a timer of the loop was, measured once a second, milliseconds: requests wait as long.",
)

LOOP_METRICS: Final = (IDLE_NETWORK, IDLE_HANDLERS, DELAY_MS)


class LoopLoad:
    """The load of the loop that runs when this is made. All methods are called on it."""

    def __init__(self, clock: Clock, cpu_s: Callable[[], float] = thread_cpu_s) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._cpu_s = cpu_s
        self._delays_ms = Histogram()
        self._seen: deque[tuple[float, float]] = deque([self._now()], maxlen=WINDOW_S + 1)
        """Of each second: the time, and the thread's time on a processor."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measures until `stop`."""
        self._timer = self._loop.call_later(SAMPLED_EVERY_S, self.sample)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _now(self) -> tuple[float, float]:
        return self._clock.monotonic(), self._cpu_s()

    def sample(self) -> None:
        """One measurement; each begins the second until the next."""
        now, before = self._now(), self._seen[-1]
        self._delays_ms.observe(max(0.0, now[0] - before[0] - SAMPLED_EVERY_S) * 1000)
        self._seen.append(now)
        self.start()

    def read(self) -> Iterator[Sample]:
        (then, had), (now, has) = self._seen[0], self._now()
        idle = 1 - (has - had) / (now - then) if now > then else 1.0
        idle = min(1.0, max(0.0, idle))
        yield IDLE_NETWORK.is_now(idle)
        yield IDLE_HANDLERS.is_now(idle)
        yield DELAY_MS.is_now(self._delays_ms.read())
