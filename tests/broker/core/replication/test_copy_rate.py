"""The pace of copies: of the last seconds, and with what is appended meanwhile."""

from __future__ import annotations

import pytest

from strandline.broker.core.replication.copy_rate import STEP_S, WINDOW_S, CopyRates, Pace
from strandline.ids import BrokerId

NEW, OTHER = BrokerId(4), BrokerId(5)
SIZE = 1_000


def copied(
    seconds: int, *, size: int = SIZE, left: int = 1_000_000, appended: int = 0
) -> tuple[CopyRates, int]:
    """(rates, what is left) after these seconds of ten messages each; `appended` in each second."""
    rates = CopyRates()
    for tenth in range(seconds * 10):
        left -= size - appended // 10
        rates.sent(NEW, size, tenth + 1, left, tenth / 10)
    return rates, left


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rates, left = copied(60)
    pace = rates.pace(NEW, left, 60.0)
    assert pace is not None
    assert pace.bytes_per_s == pytest.approx(10 * SIZE, rel=0.05)
    assert pace.closing_per_s == pytest.approx(10 * SIZE, rel=0.05)
    assert rates.offset(NEW) == 600


@pytest.mark.parametrize(("appended", "closing"), [(4_000, 6_000), (10_000, 0), (15_000, -5_000)])
def test_it_comes_closer_by_what_is_copied_less_what_is_appended(appended: int, closing: int) -> None:
    """At 0 or below it never catches up, and nothing would say so but this."""
    rates, left = copied(60, appended=appended)
    pace = rates.pace(NEW, left, 60.0)
    assert pace is not None
    assert pace.bytes_per_s == pytest.approx(10 * SIZE, rel=0.05)
    assert pace.closing_per_s == pytest.approx(closing, abs=500)


def test_a_pace_needs_half_a_second() -> None:
    """One message a millisecond after the beginning is no rate."""
    rates = CopyRates()
    rates.sent(NEW, SIZE, 1, 9 * SIZE, 0.0)
    assert rates.pace(NEW, 9 * SIZE, STEP_S / 2) is None
    assert rates.pace(NEW, 9 * SIZE, 1.0) == Pace(SIZE, SIZE)
    assert rates.pace(OTHER, 0, 1.0) is None


def test_a_copy_that_stands_still_becomes_slower_until_it_is_zero() -> None:
    """A follower that hangs, or a throttle of a byte a second."""
    rates, left = copied(20)
    found = [rates.pace(NEW, left, 20.0 + later) for later in (0.0, WINDOW_S / 2, WINDOW_S, 1_000.0)]
    speeds = [each.bytes_per_s for each in found if each is not None]
    assert speeds == sorted(speeds, reverse=True)
    assert speeds[-1] < 10


def test_a_flow_that_has_ended_and_a_reassignment_that_is_over_leave_nothing() -> None:
    """The next copy to the same broker begins anew."""
    for forget in (lambda rates: rates.end(NEW), CopyRates.clear):
        rates, left = copied(5)
        forget(rates)
        assert rates.pace(NEW, left, 6.0) is None
        assert rates.offset(NEW) is None


def test_memory_is_bounded() -> None:
    rates, _ = copied(120)
    (copy,) = rates._copies.values()
    assert len(copy._samples) <= WINDOW_S / STEP_S + 2
