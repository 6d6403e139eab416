"""A client's login, against the server's own steps."""

from __future__ import annotations

import pytest

from strandline.errors import AuthenticationFailed, InvalidRequest
from strandline.security.login.authenticator import Authenticator
from strandline.security.login.conversation import check_end, conversation, next_message
from strandline.security.login.credentials import make_credential
from strandline.security.login.mechanisms import HASHES, PLAIN, SCRAM_SHA_256
from strandline.security.principal import Principal

SALT = b"0123456789abcdef"
PASSWORD = "wonderland"
EACH = pytest.mark.parametrize("mechanism", [*HASHES, PLAIN])


def authenticator() -> Authenticator:
    made = Authenticator((*HASHES, PLAIN), lambda: b"secret", lambda *_: False, None)
    made.take({"alice": {name: make_credential(name, PASSWORD, SALT, 4_096) for name in HASHES}})
    return made


@EACH
def test_both_ends_come_to_the_same_end(mechanism: str) -> None:
    """A11"""
    login = authenticator().begin(mechanism, "servernonce")
    messages = conversation(mechanism, "alice", PASSWORD, "clientnonce")
    message, principal = next_message(messages, None), None
    while message is not None:
        assert principal is None, "the server has ended, and the client goes on"
        step = login.step(message)
        message, principal = next_message(messages, step.token), step.principal
    assert principal == Principal("alice")


def test_a_server_that_does_not_know_the_user_is_refused() -> None:
    """A10: its proof is a signature by the user's key."""
    login = authenticator().begin(SCRAM_SHA_256, "servernonce")
    messages = conversation(SCRAM_SHA_256, "alice", PASSWORD, "clientnonce")
    first = next_message(messages, None)
    assert first is not None
    assert next_message(messages, login.step(first).token) is not None
    with pytest.raises(AuthenticationFailed, match="did not prove"):
        next_message(messages, b"v=" + b"A" * 43 + b"=")


def test_a_login_has_to_end_at_both_ends() -> None:
    """A10: a server that hands out a session early has proved nothing."""
    assert check_end(None, "session")
    assert not check_end(b"message", "")
    for message, session in ((b"message", "session"), (None, "")):
        with pytest.raises(AuthenticationFailed, match="too early, or not at all"):
            check_end(message, session)


@EACH
def test_a_password_that_no_login_allows_is_refused(mechanism: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        next_message(conversation(mechanism, "alice", "\0secret", "clientnonce"), None)
    assert "secret" not in str(refused.value)
