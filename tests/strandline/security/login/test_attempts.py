"""The bounds of logins."""

from __future__ import annotations

import pytest

from strandline.errors import ThrottlingQuotaExceeded
from strandline.security.login.attempts import (
    ADDRESSES_MAX,
    DELAY_S,
    FAILURES_MAX,
    STEPS_PER_ADDRESS_MAX,
    Attempts,
)


def test_an_address_that_fails_often_waits() -> None:
    """A10: and others do not wait for it."""
    attempts = Attempts()
    for failure in range(FAILURES_MAX):
        assert attempts.begin("a", failure * 0.1) == 0
        attempts.failed("a", failure * 0.1)
        attempts.end("a")
    assert attempts.begin("a", 0.5) == DELAY_S
    assert attempts.begin("b", 0.5) == 0
    assert attempts.begin("a", 1.5) == 0


def test_steps_in_progress_are_bounded() -> None:
    """A10: for each address, so that one address does not keep others out."""
    attempts = Attempts()
    for _ in range(STEPS_PER_ADDRESS_MAX):
        attempts.begin("a", 0)
    with pytest.raises(ThrottlingQuotaExceeded, match="from a"):
        attempts.begin("a", 0)
    attempts.begin("b", 0)
    attempts.end("a")
    attempts.begin("a", 0)


def test_remembered_failures_are_bounded() -> None:
    """A10: an attacker with many addresses does not fill the memory."""
    attempts = Attempts()
    for number in range(ADDRESSES_MAX + 5):
        attempts.failed(str(number), 0)
    assert attempts.addresses == ADDRESSES_MAX
