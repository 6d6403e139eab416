"""SCRAM, against the examples of its RFC and against itself."""

from __future__ import annotations

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import AuthenticationFailed, InvalidRequest
from strandline.security.login.credentials import Credential, credential_of, make_credential, salted_password
from strandline.security.login.mechanisms import HASHES, SCRAM_SHA_256, SCRAM_SHA_512
from strandline.security.login.scram import ScramClient, ScramLogin
from strandline.security.principal import Principal

CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
"""The exchange of RFC 7677, section 3, for the user `user` with the password `pencil`."""


def server(credential: Credential, mechanism: str = SCRAM_SHA_256, nonce: str = SERVER_NONCE) -> ScramLogin:
    return ScramLogin(mechanism, lambda name: (Principal(name), credential), nonce)


def test_the_server_says_what_the_rfc_says() -> None:
    """A10: from a salted key alone."""
    login = server(make_credential(SCRAM_SHA_256, "pencil", SALT, 4_096))
    assert login.step(CLIENT_FIRST).token == SERVER_FIRST
    step = login.step(CLIENT_FINAL)
    assert (step.token, step.principal) == (SERVER_FINAL, Principal("user"))


def test_the_client_says_what_the_rfc_says() -> None:
    """A10: and knows the server by its answer."""
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", CLIENT_NONCE)
    assert client.first() == CLIENT_FIRST
    assert client.final(SERVER_FIRST) == CLIENT_FINAL
    client.check(SERVER_FINAL)


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize(
    ("name", "password"), [("alice", "x"), ("a=b,c", "p=,w"), ("ä ö", "päss wörd"), ("用户", "密码")]
)
def test_each_name_and_password_logs_in(mechanism: str, name: str, password: str) -> None:
    """A10: with commas, equals signs and text of any language."""
    login = server(make_credential(mechanism, password, b"s" * 32), mechanism)
    client = ScramClient(mechanism, name, password, CLIENT_NONCE)
    final = client.final(login.step(client.first()).token)
    step = login.step(final)
    client.check(step.token)
    assert step.principal == Principal(name)


def test_a_salted_password_makes_the_same_credential() -> None:
    """A12: so an admin's machine sends no password (KIP-554)."""
    salted = salted_password(SCRAM_SHA_512, "pencil", SALT, 4_096)
    assert credential_of(SCRAM_SHA_512, salted, SALT, 4_096) == make_credential(
        SCRAM_SHA_512, "pencil", SALT, 4_096
    )


def test_a_wrong_password_is_refused() -> None:
    """A10: and so is a server that does not know the password."""
    login = server(make_credential(SCRAM_SHA_256, "other", SALT, 4_096))
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", CLIENT_NONCE)
    final = client.final(login.step(client.first()).token)
    with pytest.raises(AuthenticationFailed, match="wrong"):
        login.step(final)
    with pytest.raises(AuthenticationFailed, match="did not prove"):
        client.check(b"v=" + b"A" * 43 + b"=")


@pytest.mark.parametrize("iterations", [b"1", b"4095", b"16385", b"9999999", b"x"])
def test_a_server_may_not_ask_for_any_work(iterations: bytes) -> None:
    """A10: too little gives the password to one who listens, too much is an attack on the client."""
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", CLIENT_NONCE)
    client.first()
    with pytest.raises(AuthenticationFailed):
        client.final(SERVER_FIRST.replace(b"4096", iterations))


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_message_is_too_strange(first: bytes, final: bytes) -> None:
    """A10: anything else than a login is refused as a wrong password is."""
    login = server(make_credential(SCRAM_SHA_256, "pencil", SALT, 4_096))
    with pytest.raises(AuthenticationFailed, match="name or the password is wrong"):
        login.step(first)
        login.step(final)


@pytest.mark.parametrize("password", ["", "a" * 1_001, "\x00", "\ud800"])
def test_a_password_that_no_login_allows_is_never_shown(password: str) -> None:
    """A12"""
    with pytest.raises(InvalidRequest) as error:
        make_credential(SCRAM_SHA_256, password, SALT)
    assert "password" in error.value.message
    assert not password or password not in error.value.message


@pytest.mark.parametrize("iterations", [0, 4_095, 16_385])
def test_a_credential_has_bounds(iterations: int) -> None:
    """A10: a weak one, or one that is much work at each login, cannot be made."""
    with pytest.raises(InvalidRequest, match="iterations"):
        make_credential(SCRAM_SHA_256, "pencil", SALT, iterations)
    with pytest.raises(InvalidRequest, match="salt"):
        make_credential(SCRAM_SHA_256, "pencil", b"short")


def test_a_credential_does_not_show_its_keys() -> None:
    """A12"""
    credential = make_credential(SCRAM_SHA_256, "pencil", SALT)
    assert repr(credential) == "Credential(SCRAM-SHA-256, iterations=8192)"
