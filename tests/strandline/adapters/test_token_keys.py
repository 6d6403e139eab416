"""Keys for tokens: of a file, and fetched from their issuer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from strandline.adapters.fetched_keys import fetch
from strandline.adapters.token_keys import TokenKeys, token_keys
from strandline.config.sasl import SaslSettings
from strandline.errors import SettingsError
from strandline.security.login.tokens import (
    READ_AGAIN_S,
    SET_BYTES_MAX,
    TRIES_S_MIN,
    InvalidToken,
    UnknownKey,
    UnusableKeys,
)
from tests.hand_clock import HandClock
from tests.issuer import AUDIENCE, ISSUER, Issuer

ONE, OTHER = Issuer(), Issuer(2)


def settings(**where: object) -> SaslSettings:
    return SaslSettings.model_validate(
        {
            "sasl_enabled_mechanisms": "OAUTHBEARER",
            "sasl_oauthbearer_expected_issuer": ISSUER,
            "sasl_oauthbearer_expected_audience": AUDIENCE,
            **where,
        }
    )


def made(clock: HandClock, **where: object) -> TokenKeys:
    keys = token_keys(settings(**where), clock)
    assert keys is not None
    return keys


def token(clock: HandClock, issuer: Issuer = ONE) -> str:
    return issuer.token(clock.now_s + 60, algorithm="EdDSA")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_bytes(ONE.jwks)
    return path


class Answers(BaseHTTPRequestHandler):
    """`/keys` has a set, `/large` too much, `/elsewhere` leads to the keys, `/broken` is no HTTP."""

    def do_GET(self) -> None:
        match self.path:
            case "/broken":
                self.wfile.write(b"no HTTP\r\n\r\n")
                return
            case "/elsewhere":
                self.send_response(302)
                self.send_header("Location", "/keys")
                data = b""
            case "/large":
                self.send_response(200)
                data = b" " * (SET_BYTES_MAX + 1)
            case _:
                self.send_response(200)
                data = ONE.jwks
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing goes to standard error."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as url:
        yield url


@contextmanager
def serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_file_has_the_keys(file: Path) -> None:
    """A16: another key counts once ten seconds have passed, and the ones before no longer."""
    clock = HandClock()
    keys = made(clock, sasl_oauthbearer_jwks_file=file)
    keys.prepare()
    assert keys.user_of(token(clock)).name == "alice"
    file.write_bytes(OTHER.jwks)
    with pytest.raises(UnknownKey):
        keys.user_of(token(clock, OTHER))
    clock.now_s += TRIES_S_MIN
    assert keys.user_of(token(clock, OTHER)).name == "alice"
    with pytest.raises(UnknownKey):
        keys.user_of(token(clock))


def test_a_key_that_is_withdrawn_counts_no_longer_than_an_hour(file: Path) -> None:
    """A16"""
    clock = HandClock()
    keys = made(clock, sasl_oauthbearer_jwks_file=file)
    keys.prepare()
    file.write_bytes(OTHER.jwks)
    clock.now_s += READ_AGAIN_S
    with pytest.raises(UnknownKey):
        keys.user_of(token(clock))


def test_keys_stay_while_no_others_can_be_had(file: Path) -> None:
    clock = HandClock()
    keys = made(clock, sasl_oauthbearer_jwks_file=file)
    keys.prepare()
    for broken in (b"{}", b" " * (SET_BYTES_MAX + 1)):
        file.write_bytes(broken)
        clock.now_s += READ_AGAIN_S
        assert keys.user_of(token(clock)).name == "alice"


@pytest.mark.parametrize("data", [None, b"", b'{"keys": []}'])
def test_a_process_does_not_begin_with_a_file_that_has_no_keys(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "keys.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(SettingsError, match="sasl_oauthbearer_jwks_file"):
        made(HandClock(), sasl_oauthbearer_jwks_file=path).prepare()


def test_an_address_has_the_keys(address: str) -> None:
    """A16"""
    clock = HandClock()
    keys = made(clock, sasl_oauthbearer_jwks_url=f"{address}/keys")
    keys.prepare()
    assert keys.user_of(token(clock)).name == "alice"


def test_what_an_address_answers_is_bounded(address: str) -> None:
    """A16: and no redirection is followed, which may lead out of TLS."""
    with pytest.raises(UnusableKeys, match="more than"):
        fetch(f"{address}/large", HandClock())
    with pytest.raises(OSError, match="302"):
        fetch(f"{address}/elsewhere", HandClock())


def test_an_issuer_that_is_away_delays_no_start() -> None:
    """Its tokens are refused until it answers."""
    with serving() as url:
        pass
    clock = HandClock()
    for path in (f"{url}/keys", f"{url}/broken"):
        keys = made(clock, sasl_oauthbearer_jwks_url=path)
        keys.prepare()
        with pytest.raises(InvalidToken):
            keys.user_of(token(clock))


def test_what_is_no_http_is_refused(address: str) -> None:
    clock = HandClock()
    keys = made(clock, sasl_oauthbearer_jwks_url=f"{address}/broken")
    keys.prepare()
    with pytest.raises(InvalidToken):
        keys.user_of(token(clock))


def test_without_the_mechanism_there_are_no_keys() -> None:
    assert token_keys(SaslSettings(), HandClock()) is None
