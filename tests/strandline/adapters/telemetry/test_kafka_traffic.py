"""What clients choose makes no unbounded labels, and no flood of log lines."""

from __future__ import annotations

import structlog

from strandline.adapters.telemetry.kafka_traffic import CLIENTS, SOFTWARE_MAX, KafkaTraffic
from tests.hand_clock import HandClock


def clients(traffic: KafkaTraffic) -> dict[tuple[str, ...], object]:
    return {sample.labels: sample.value for sample in traffic.read() if sample.metric is CLIENTS}


def test_names_of_software_have_a_bound() -> None:
    """CORRECTNESS X6: a client that names another software in each connection fills no memory."""
    traffic = KafkaTraffic(HandClock())
    for number in range(3 * SOFTWARE_MAX):
        traffic.introduced("made-up", str(number))
    traffic.introduced("made-up", "0")
    found = clients(traffic)
    assert len(found) == SOFTWARE_MAX + 1
    assert found["made-up", "0"] == 2 and found["other", ""] == 2 * SOFTWARE_MAX


def test_a_name_that_is_none_is_other() -> None:
    traffic = KafkaTraffic(HandClock())
    for name in ("", "two words", "x" * 41, "new\nline", "-x"):
        traffic.introduced(name, "1")
    assert clients(traffic) == {("other", ""): 5}


def test_failures_of_one_kind_are_logged_once_a_minute() -> None:
    """A producer with acks=0 whose batches are refused connects again at once."""
    clock = HandClock()
    traffic = KafkaTraffic(clock)
    with structlog.testing.capture_logs() as logged:
        for second in range(120):
            clock.now_s = float(second)
            traffic.failed("Produce", 9, "c", "refused")
    assert [each["so_far"] for each in logged] == [1, 61]
