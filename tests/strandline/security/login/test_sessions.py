"""Sessions as a machine against a plain model, and the bounds of logins."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from strandline.errors import AuthenticationFailed, IllegalSaslState, ThrottlingQuotaExceeded
from strandline.security.login.attempts import (
    ADDRESSES_MAX,
    DELAY_S,
    FAILURES_MAX,
    STEPS_PER_ADDRESS_MAX,
    Attempts,
)
from strandline.security.login.sessions import Sessions
from strandline.security.principal import Principal

SESSIONS_MAX, LIFETIME_S = 3, 10.0
CONNECTIONS = st.sampled_from(["a:1", "a:2", "b:1"])


class Machine(RuleBasedStateMachine):
    """A11: what a call may show, after any order of logins, calls and time."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions = Sessions(SESSIONS_MAX, LIFETIME_S)
        self.now = 0.0
        self.used: list[int] = []
        """The sessions that are kept, the one that was used last at the end."""
        self.opened: list[tuple[str, float]] = []

    @rule(connection=CONNECTIONS)
    def open(self, connection: str) -> None:
        number = len(self.opened)
        self.opened.append((connection, self.now + LIFETIME_S))
        self.sessions.open(b"%d" % number, connection, Principal(f"user-{number}"), "PLAIN", self.now)
        self.used = [*self.used, number][-SESSIONS_MAX:]

    @rule(seconds=st.sampled_from([1.0, 4.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(connection=CONNECTIONS, back=st.integers(1, 5))
    def call(self, connection: str, back: int) -> None:
        number = len(self.opened) - back
        if number < 0:
            return
        of, ends_at = self.opened[number]
        if number not in self.used:
            with pytest.raises(AuthenticationFailed, match="ended"):
                self.sessions.find(b"%d" % number, connection, self.now)
        elif of != connection:
            with pytest.raises(IllegalSaslState, match="another connection"):
                self.sessions.find(b"%d" % number, connection, self.now)
        elif self.now >= ends_at:
            self.used.remove(number)
            with pytest.raises(AuthenticationFailed, match="ended"):
                self.sessions.find(b"%d" % number, connection, self.now)
        else:
            self.used.remove(number)
            self.used.append(number)
            found = self.sessions.find(b"%d" % number, connection, self.now)
            assert found.principal == Principal(f"user-{number}")

    @rule(connection=CONNECTIONS)
    def call_without(self, connection: str) -> None:
        with pytest.raises(IllegalSaslState, match="log in first"):
            self.sessions.find(None, connection, self.now)

    @invariant()
    def bounded(self) -> None:
        assert len(self.sessions) == len(self.used) <= SESSIONS_MAX


TestSessions = Machine.TestCase


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
