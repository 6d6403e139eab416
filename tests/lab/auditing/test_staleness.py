"""How long an acknowledged record took to be read."""

from __future__ import annotations

from strandline_lab.auditing.staleness import Reading, Staleness, longest

LANE = ("orders", 0)


def test_the_longest_time_from_acknowledgement_to_reading_is_reported_with_reader_and_record() -> None:
    acked = {LANE: {0: 100.0, 1: 110.0, 2: 120.0}}
    readings = [
        Reading("fast", *LANE, 0, 101.0, 50.0),
        Reading("slow", *LANE, 0, 130.0, 50.0),
        Reading("slow", *LANE, 1, 180.5, 50.0),
        Reading("slow", *LANE, 2, 181.0, 50.0),
        Reading("slow", "orders", 1, 2, 999.0, 50.0),  # this one was never reported
    ]
    assert longest(acked, readings) == [Staleness("orders", 0, 1, "slow", 70.5)]


def test_a_record_read_before_its_acknowledgement_has_no_delay() -> None:
    acked = {LANE: {0: 100.0, 1: 110.0}}
    readings = [Reading("early", *LANE, 0, 99.0, 50.0), Reading("late", *LANE, 1, 510.0, 509.0)]
    assert longest(acked, readings) == [Staleness("orders", 0, 1, "late", 1.0)]
