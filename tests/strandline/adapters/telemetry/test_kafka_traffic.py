"""What clients choose makes no unbounded labels, and no flood of log lines."""

from __future__ import annotations

import structlog

from strandline.adapters.telemetry.kafka_traffic import (
    CLIENTS,
    SOFTWARE_MAX,
    UNSERVED,
    UNSERVED_MAX,
    KafkaTraffic,
)
from tests.hand_clock import HandClock


def clients(traffic: KafkaTraffic) -> dict[tuple[str, ...], object]:
    return {sample.labels: sample.value for sample in traffic.read() if sample.metric is CLIENTS}


def test_names_of_software_have_a_bound() -> None:
    """CORRECTNESS X6: a client that names another software in each connection fills no memory."""
    traffic = KafkaTraffic(HandClock())
    for number in range(3 * SOFTWARE_MAX):
        traffic.introduced("made-up", str(number))
    assert traffic.introduced("made-up", "0") == "made-up"
    assert traffic.introduced("late", "0") == "other"
    found = clients(traffic)
    assert len(found) == SOFTWARE_MAX + 1
    assert found["made-up", "0"] == 2 and found["other", ""] == 2 * SOFTWARE_MAX + 1


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


def test_what_is_not_served_is_logged_once_a_minute_for_each_api_and_software() -> None:
    """A client that is closed connects again at once, and asks again."""
    clock = HandClock()
    traffic = KafkaTraffic(clock)
    with structlog.testing.capture_logs() as logged:
        for second in range(120):
            clock.now_s = float(second)
            for software in ("a", "b"):
                traffic.unserved("EndTxn", software, "c", "why")
    assert [(each["software"], each["so_far"], each["reason"]) for each in logged] == [
        ("a", 1, "why"), ("b", 1, "why"), ("a", 61, "why"), ("b", 61, "why"),
    ]  # fmt: skip


def test_what_is_not_served_is_counted_under_a_bounded_number_of_names() -> None:
    """CORRECTNESS X6."""
    traffic = KafkaTraffic(HandClock())
    for number in range(3 * UNSERVED_MAX):
        traffic.unserved("EndTxn", str(number), "c", "why")
    found = {sample.labels: sample.value for sample in traffic.read() if sample.metric is UNSERVED}
    assert len(found) == UNSERVED_MAX + 1
    assert found["EndTxn", "0"] == 1 and found["other", "other"] == 2 * UNSERVED_MAX
