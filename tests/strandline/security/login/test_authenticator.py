"""Logins of users who exist, and of those who do not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from strandline.errors import AuthenticationFailed, InvalidRequest, UnsupportedSaslMechanism
from strandline.security.login.authenticator import Authenticator
from strandline.security.login.credentials import make_credential
from strandline.security.login.mechanisms import (
    HASHES,
    PLAIN,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    check_new_user_name,
    check_user_name,
    parse_mechanisms,
)
from strandline.security.login.plain import plain_message
from strandline.security.login.scram import ScramClient
from strandline.security.login.steps import LoginRefused, Why
from strandline.security.principal import Principal

SALT = b"0123456789abcdef"
MEMBER = Principal("broker-1")


def authenticator(secret: bytes = b"secret", *mechanisms: str) -> Authenticator:
    made = Authenticator(
        mechanisms or (*HASHES, PLAIN), lambda: secret, lambda principal, _: principal == MEMBER, None
    )
    credential = make_credential(SCRAM_SHA_256, "wonderland", SALT, 4_096)
    made.take({name: {SCRAM_SHA_256: credential} for name in ("alice", MEMBER.name)})
    return made


def challenge(of: Authenticator, name: str, mechanism: str = SCRAM_SHA_256) -> bytes:
    client = ScramClient(mechanism, name, "x", "clientnonce")
    return of.begin(mechanism, "servernonce").step(client.first()).token


def refusal(of: Authenticator, mechanism: str, name: str, password: str) -> str:
    login = of.begin(mechanism, "servernonce")
    with pytest.raises(AuthenticationFailed) as error:
        if mechanism == PLAIN:
            login.step(plain_message(name, password))
        else:
            client = ScramClient(mechanism, name, password, "clientnonce")
            login.step(client.final(login.step(client.first()).token))
    return error.value.message


def hashes_of(call: Callable[[], str]) -> tuple[str, int]:
    """What a call returns, and how many passwords it hashes."""
    hashed: list[str] = []

    def note(_: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ == "pbkdf2_hmac":
            hashed.append(event)

    sys.setprofile(note)
    try:
        return call(), len(hashed)
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, PLAIN])
def test_a_wrong_name_is_refused_as_a_wrong_password_is(mechanism: str) -> None:
    """A10: word for word."""
    of = authenticator()
    assert refusal(of, mechanism, "alice", "wrong") == refusal(of, mechanism, "bob", "wonderland")


@pytest.mark.parametrize("name", ["", "a" * 250, "a" * 1_001, "a\x07b"])
def test_a_name_that_no_user_may_have_is_refused_as_an_unknown_one_is(name: str) -> None:
    """A10: word for word, and after the same work."""
    of = authenticator()
    unknown, work = hashes_of(lambda: refusal(of, PLAIN, "bob", "wonderland"))
    assert work == len(HASHES)
    assert hashes_of(lambda: refusal(of, PLAIN, name, "wonderland")) == (unknown, work)


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, PLAIN])
def test_no_password_makes_a_caller_a_member_of_the_cluster(mechanism: str) -> None:
    """A3: a user with a broker's name is no broker, and no password changes that."""
    of = authenticator()
    assert refusal(of, mechanism, MEMBER.name, "wonderland") == refusal(of, mechanism, "bob", "wonderland")


def test_a_user_who_does_not_exist_always_has_the_same_salt() -> None:
    """A10: at each member of the cluster, and another one than other users."""
    of, member = authenticator(), authenticator()
    assert challenge(of, "bob") == challenge(of, "bob") == challenge(member, "bob")
    assert challenge(of, "bob") != challenge(of, "carol")
    assert challenge(of, "bob") != challenge(authenticator(b"another cluster"), "bob")


def test_the_keys_of_a_stand_in_are_no_way_in() -> None:
    """A10: a mechanism without a credential is a user who does not exist."""
    of = authenticator()
    assert "wrong" in refusal(of, SCRAM_SHA_512, "alice", "wonderland")
    assert challenge(of, "alice", SCRAM_SHA_512).endswith(b",i=8192")


def test_a_password_itself_is_compared_with_any_credential() -> None:
    """A10: PLAIN, for users of either SCRAM mechanism."""
    of = authenticator()
    assert of.begin(PLAIN, "").step(plain_message("alice", "wonderland")).principal == Principal("alice")
    of.take({"bob": {SCRAM_SHA_512: make_credential(SCRAM_SHA_512, "builder", SALT, 4_096)}})
    assert of.begin(PLAIN, "").step(plain_message("bob", "builder")).principal == Principal("bob")
    assert "wrong" in refusal(of, PLAIN, "alice", "wonderland")


@pytest.mark.parametrize(
    "token", [b"", b"alice", b"\0alice", b"bob\0alice\0wonderland", b"\0\xff\0x", b"\0\0\0\0"]
)
def test_plain_takes_one_form(token: bytes) -> None:
    """A10: a password is good for one name alone."""
    with pytest.raises(AuthenticationFailed, match="wrong"):
        authenticator().begin(PLAIN, "").step(token)


def test_only_enabled_mechanisms_are_there() -> None:
    """A11"""
    of = authenticator(b"s", SCRAM_SHA_512)
    with pytest.raises(UnsupportedSaslMechanism, match="SCRAM-SHA-512 are"):
        of.begin(PLAIN, "")


def test_mechanisms_are_a_list() -> None:
    """A11: a wrong one is not passed over."""
    assert parse_mechanisms("PLAIN, SCRAM-SHA-512,PLAIN") == (PLAIN, SCRAM_SHA_512)
    assert parse_mechanisms("") == ()
    with pytest.raises(InvalidRequest, match="GSSAPI"):
        parse_mechanisms("PLAIN,GSSAPI")


@pytest.mark.parametrize("name", ["", "a" * 250, "a\nb", "\ud800"])
def test_some_names_no_user_has(name: str) -> None:
    """A10"""
    with pytest.raises(InvalidRequest):
        check_user_name(name)


@pytest.mark.parametrize("name", ["", " ", "*", "<default>", "User:alice"])
def test_some_names_no_new_user_gets(name: str) -> None:
    """A10: ACLs and commands would take them for something else."""
    with pytest.raises(InvalidRequest):
        check_new_user_name(name)
    check_new_user_name(f"x{name}")


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, PLAIN])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("alice", Why.WRONG_PASSWORD),
        ("bob", Why.UNKNOWN_USER),
        (MEMBER.name, Why.UNKNOWN_USER),
    ],
)
def test_the_server_knows_why_it_refused_a_login(mechanism: str, name: str, why: Why) -> None:
    """A15: for its audit log. The message stays the same."""
    login = authenticator().begin(mechanism, "servernonce")
    with pytest.raises(LoginRefused) as refused:
        if mechanism == PLAIN:
            login.step(plain_message(name, "wrong"))
        else:
            client = ScramClient(mechanism, name, "wrong", "clientnonce")
            login.step(client.final(login.step(client.first()).token))
    assert (refused.value.why, refused.value.user) == (why, name)


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, PLAIN])
def test_a_message_that_is_none_is_malformed(mechanism: str) -> None:
    """A15"""
    with pytest.raises(LoginRefused) as refused:
        authenticator().begin(mechanism, "servernonce").step(b"\xff")
    assert (refused.value.why, refused.value.user) == (Why.MALFORMED, "")
