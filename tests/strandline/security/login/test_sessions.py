"""Sessions as a machine against a plain model."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from strandline.errors import AuthenticationFailed, IllegalSaslState
from strandline.security.login.sessions import Session, Sessions
from strandline.security.principal import Principal

SESSIONS_MAX, LIFETIME_S = 2, 10.0
CONNECTIONS = st.sampled_from(["a:1", "a:2", "b:1"])


class Machine(RuleBasedStateMachine):
    """A11: what a call may show, after any order of logins, calls and time."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions = Sessions(SESSIONS_MAX)
        self.now = 0.0
        self.begun: list[Session] = []
        self.current: dict[str, int] = {}
        """The number of each connection's session, the connection that was used last at the end."""

    @rule(connection=CONNECTIONS, ends=st.booleans())
    def begin(self, connection: str, ends: bool) -> None:
        number = len(self.begun)
        session = Session(
            f"token-{number}", Principal(f"user-{number}"), "PLAIN", self.now + LIFETIME_S if ends else None
        )
        self.begun.append(session)
        self.sessions.begin(connection, session)
        self.use(connection, number)
        while len(self.current) > SESSIONS_MAX:
            del self.current[next(iter(self.current))]

    def use(self, connection: str, number: int) -> None:
        self.current.pop(connection, None)
        self.current[connection] = number

    @rule(seconds=st.sampled_from([1.0, 4.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(connection=CONNECTIONS, back=st.integers(1, 4))
    def call(self, connection: str, back: int) -> None:
        number = len(self.begun) - back
        if number < 0:
            return
        session = self.begun[number]
        if self.current.get(connection) != number:
            with pytest.raises(IllegalSaslState, match="not one of this connection"):
                self.sessions.find(connection, session.token, self.now)
            return
        self.use(connection, number)
        if session.ends_at is not None and self.now >= session.ends_at:
            with pytest.raises(AuthenticationFailed, match="has ended"):
                self.sessions.find(connection, session.token, self.now)
        else:
            assert self.sessions.find(connection, session.token, self.now) is session

    @rule(connection=CONNECTIONS)
    def call_without(self, connection: str) -> None:
        with pytest.raises(IllegalSaslState, match="log in first"):
            self.sessions.find(connection, None, self.now)

    @invariant()
    def bounded(self) -> None:
        assert len(self.sessions) == len(self.current) <= SESSIONS_MAX


TestSessions = Machine.TestCase


def test_no_message_has_a_token() -> None:
    """A10: not even what a defect prints."""
    session = Session("secret", Principal("alice"), "PLAIN", None)
    assert "secret" not in repr(session)
    sessions = Sessions(SESSIONS_MAX)
    sessions.begin("a:1", session)
    with pytest.raises(IllegalSaslState) as refused:
        sessions.find("b:1", "secret", 0)
    assert "secret" not in str(refused.value)


def test_a_user_that_logs_in_again_and_again_ends_sessions_of_its_own() -> None:
    """A11: those of others last, however long they are not used."""
    sessions, alice = Sessions(3), Session("t", Principal("alice"), "PLAIN", None)
    sessions.begin("a:1", alice)
    for number in range(5):
        sessions.begin(f"m:{number}", Session("t", Principal("mallory"), "PLAIN", None))
    sessions.begin("b:1", Session("t", Principal("bob"), "PLAIN", None))
    assert sessions.find("a:1", "t", 0) is alice
    assert list(sessions._of) == ["m:4", "b:1", "a:1"]
