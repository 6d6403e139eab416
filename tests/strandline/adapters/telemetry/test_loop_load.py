"""How busy a loop is: by the time of its thread on a processor, and by its timers."""

from __future__ import annotations

import pytest

from strandline.adapters.telemetry.loop_load import WINDOW_S, LoopLoad
from strandline.adapters.telemetry.metrics import Buckets
from tests.hand_clock import HandClock

IDLE = "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent"


class Thread:
    """A loop's thread in the hands of a test."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.cpu_s = 0.0
        self.load = LoopLoad(self.clock, lambda: self.cpu_s)

    def second(self, *, busy_s: float, late_s: float = 0.0) -> None:
        self.clock.now_s += 1 + late_s
        self.cpu_s += busy_s
        self.load.sample()
        self.load.stop()

    def values(self) -> dict[str, float]:
        return {
            each.metric.name: sum(each.value.counts) if isinstance(each.value, Buckets) else each.value
            for each in self.load.read()
        }


async def test_the_idle_share_is_that_of_the_last_minute() -> None:
    """Kafka's RequestHandlerAvgIdlePercent and NetworkProcessorAvgIdlePercent, from 0 to 1."""
    thread = Thread()
    for _ in range(WINDOW_S):
        thread.second(busy_s=1.0)
    assert thread.values()[IDLE] == 0
    for _ in range(WINDOW_S // 4):
        thread.second(busy_s=0.2)
    found = thread.values()
    assert found[IDLE] == pytest.approx(0.2)
    assert found[IDLE] == found["kafka_network_socketserver_networkprocessoravgidlepercent"]


async def test_a_late_timer_shows_what_the_idle_share_does_not() -> None:
    """A loop that waits for its disk uses no processor, and serves no one."""
    thread = Thread()
    thread.second(busy_s=0.0, late_s=0.4)
    thread.second(busy_s=0.0)
    assert thread.values()[IDLE] == 1
    (delays,) = [each.value for each in thread.load.read() if isinstance(each.value, Buckets)]
    assert delays.sum == pytest.approx(400)
    assert sum(delays.counts) == 2
