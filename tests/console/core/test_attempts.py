"""How often logins may fail."""

from __future__ import annotations

from strandline.console.core.attempts import ALL_TIMES, WINDOW_S, Attempts


def test_an_address_may_fail_this_often_within_a_minute() -> None:
    attempts = Attempts(2)
    attempts.failed("a", 0.0)
    attempts.failed("a", 30.0)
    assert not attempts.are_left("a", 59.0) and attempts.are_left("b", 59.0)
    assert attempts.are_left("a", WINDOW_S)
    attempts.failed("a", WINDOW_S)
    assert not attempts.are_left("a", WINDOW_S)


def test_all_addresses_together_are_bounded_and_so_is_what_is_remembered() -> None:
    attempts = Attempts(1)
    for number in range(2 * ALL_TIMES):
        attempts.failed(f"address-{number}", 0.0)
    assert not attempts.are_left("another", 1.0)
    assert attempts.are_left("another", WINDOW_S)
