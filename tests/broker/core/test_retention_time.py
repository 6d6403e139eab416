"""Retention's time: a wall clock that jumps deletes nothing at once, and is believed in the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.retention_time import PACE_MAX, RetentionTime

DAY_MS = 86_400_000
START = 20_000 * DAY_MS


def test_retention_time_is_the_wall_clock_while_that_keeps_pace() -> None:
    time = RetentionTime(None, wall_ms=START, monotonic_s=5.0)
    for second in range(1, 50):
        now = START + second * 1000
        assert time.now_ms(wall_ms=now, monotonic_s=5.0 + second) == now


def test_a_jump_is_caught_up_with_in_as_much_real_time() -> None:
    """After a jump of ten days the first look sees the same day, and ten days later all of it is believed."""
    time = RetentionTime(None, wall_ms=START, monotonic_s=0.0)
    jumped = START + 10 * DAY_MS
    assert time.now_ms(wall_ms=jumped, monotonic_s=0.0) == START
    assert time.lead_ms(jumped) == 10 * DAY_MS
    after_a_day = time.now_ms(wall_ms=jumped + DAY_MS, monotonic_s=86_400.0)
    assert after_a_day == START + PACE_MAX * DAY_MS
    assert time.now_ms(wall_ms=jumped + 10 * DAY_MS, monotonic_s=864_000.0) == jumped + 10 * DAY_MS


def test_a_process_that_starts_with_a_wrong_clock_continues_where_the_last_one_was() -> None:
    time = RetentionTime(START, wall_ms=START + 3_650 * DAY_MS, monotonic_s=0.0)
    assert time.now_ms(wall_ms=START + 3_650 * DAY_MS, monotonic_s=60.0) == START + 120_000


def test_many_looks_in_a_moment_lose_no_time() -> None:
    time = RetentionTime(None, wall_ms=START, monotonic_s=0.0)
    for look in range(1, 10_001):
        time.now_ms(wall_ms=START + DAY_MS, monotonic_s=look / 10_000)
    assert abs(time.now_ms(wall_ms=START + DAY_MS, monotonic_s=1.0) - (START + PACE_MAX * 1000)) <= 1


@given(st.lists(st.tuples(st.integers(-(10**12), 10**12), st.floats(0, 10**6)), max_size=30))
def test_retention_time_never_leads_the_wall_clock_nor_outruns_real_time(
    steps: list[tuple[int, float]],
) -> None:
    time = RetentionTime(None, wall_ms=START, monotonic_s=0.0)
    wall_ms, monotonic_s = START, 0.0
    for jump_ms, passed_s in steps:
        wall_ms += jump_ms
        monotonic_s += passed_s
        now_ms = time.now_ms(wall_ms=wall_ms, monotonic_s=monotonic_s)
        assert now_ms <= wall_ms
        assert now_ms <= START + monotonic_s * 1000 * PACE_MAX + 1
