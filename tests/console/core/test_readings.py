"""When the state of the cluster is read: what has changed soon, everything with a share of the time."""

from __future__ import annotations

from itertools import pairwise

import pytest

from strandline.console.core.readings import (
    AGAIN_S,
    SETTLE_S,
    SHARE_BUSY_MAX,
    SHARE_MAX,
    TOPICS_MAX,
    WHOLE_S_MAX,
    YOUNG_S,
    Reading,
    Readings,
)

REFRESH_S = 1.0
TINY_S = 1e-6


def simulated(readings: Readings, now_s: float, until_s: float, whole_s: float) -> list[tuple[float, bool]]:
    """When it was read from `now_s` on, and whether wholly, if that takes `whole_s` and all else no time."""
    read: list[tuple[float, bool]] = []
    while now_s < until_s:
        wait_s, whole, _ = readings.next(now_s)
        now_s += wait_s
        read.append((now_s, whole))
        began_s, now_s = now_s, now_s + (whole_s if whole else 0.0)
        readings.was_read(began_s, now_s, whole=whole, failed=False)
    return read


@pytest.mark.parametrize("whole_s", [0.001, 0.2, 1.5])
def test_readings_of_everything_have_a_share_of_the_time(whole_s: float) -> None:
    read = simulated(Readings(REFRESH_S), 0.0, 600.0, whole_s)
    wholes = sum(whole for _, whole in read)
    assert wholes * whole_s <= 600 * SHARE_MAX + whole_s
    assert wholes >= 600 / max(REFRESH_S + whole_s, whole_s / SHARE_MAX + whole_s) - 1
    gaps = [after - before for (before, _), (after, _) in pairwise(read)]
    assert max(gaps) <= REFRESH_S + whole_s + TINY_S, "the brokers are looked at all the time"


def test_everything_is_read_however_long_it_takes() -> None:
    read = simulated(Readings(REFRESH_S), 0.0, 300.0, 20.0)
    wholes = [at_s for at_s, whole in read if whole]
    assert all(after - before <= 20.0 + WHOLE_S_MAX for before, after in pairwise(wholes))


def settled(reading: Reading) -> tuple[bool, tuple[str, ...]]:
    """What is read after the pause in which changes come together."""
    assert reading.in_s == pytest.approx(SETTLE_S)
    return reading.whole, reading.topics


def read_once(took_s: float, *, failed: bool = False) -> Readings:
    """Readings of which the first ended at 0."""
    readings = Readings(REFRESH_S)
    assert readings.next(-took_s) == (0.0, True, ())
    readings.was_read(-took_s, 0.0, whole=True, failed=failed)
    return readings


def test_a_topic_that_changed_is_read_at_once_and_until_no_broker_knows_an_older_state() -> None:
    readings = read_once(1.5)
    readings.was_read(4.9, 4.9, whole=False, failed=False)
    readings.changed(["orders"], 5.0)
    assert settled(readings.next(5.0)) == (False, ("orders",))
    now_s, read = 5.0 + SETTLE_S, 0
    while readings.next(now_s).topics and read < 100:
        readings.was_read(now_s, now_s, whole=False, failed=False)
        assert readings.next(now_s).in_s <= REFRESH_S
        now_s, read = now_s + readings.next(now_s).in_s, read + 1
    assert now_s >= 5.0 + YOUNG_S and read <= YOUNG_S / AGAIN_S + 2


def test_a_change_during_a_reading_is_read_after_it() -> None:
    readings = read_once(1.5)
    readings.changed(["orders"], 5.0)
    readings.changed(["bills"], 5.2)
    readings.was_read(5.1, 5.3, whole=False, failed=False)
    assert settled(readings.next(5.3)) == (False, ("orders", "bills"))


def test_many_changes_are_read_with_everything_and_a_greater_share() -> None:
    readings = read_once(1.5)
    readings.changed([f"t{number}" for number in range(TOPICS_MAX + 1)], 1.0)
    read = simulated(readings, 1.0, 1.5 / SHARE_BUSY_MAX, 1.5)
    assert not any(whole for _, whole in read), "the share is used up"
    readings.was_read(9.9, 9.9, whole=False, failed=False)
    readings.changed([f"t{number}" for number in range(TOPICS_MAX + 1)], 10.0)
    assert settled(readings.next(10.0)) == (True, ())


def test_what_failed_is_tried_again_soon() -> None:
    assert read_once(10.0, failed=True).next(0.0) == (REFRESH_S, True, ())
