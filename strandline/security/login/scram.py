"""SCRAM (RFC 5802, RFC 7677), at its server and at its client. The messages are scramp's work.

The server does one hash of each message. The client does the thousands that make guessing a password dear.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from strandline.errors import AuthenticationFailed
from strandline.security.login.credentials import ITERATIONS_MAX, ITERATIONS_MIN, Credential, prepared
from strandline.security.login.steps import LoginRefused, Step, Why, refused
from strandline.security.principal import Principal


@cache
def _scramp() -> Any:
    """Imported at the first login: that costs 77 ms."""
    import scramp.core

    return scramp.core


def prepare() -> None:
    """Import what a login needs, so that the first one does not wait for it."""
    _scramp()


class ScramLogin:
    """The server's side: client-first, then client-final."""

    slow = False

    def __init__(
        self, mechanism: str, find: Callable[[str], tuple[Principal | None, Credential]], nonce: str
    ) -> None:
        """`find` gives the principal and the credential of a name. No principal: the login fails at its end,
        even if the client proves something. `nonce`: random, printable, without commas."""
        self.mechanism = mechanism
        self._find = find
        self._principal: Principal | None = None
        self._server = _scramp().ScramMechanism(mechanism).make_server(self._keys, s_nonce=nonce)
        self._greeted = False
        self._name: str | None = None

    def step(self, token: bytes) -> Step:
        scramp = _scramp()
        try:
            text = token.decode()
            if not self._greeted:
                self._greeted = True
                self._server.set_client_first(text)
                return Step(self._server.get_server_first().encode())
            self._server.set_client_final(text)
            final = self._server.get_server_final().encode()
        except (scramp.ScramException, UnicodeDecodeError) as error:
            raise self._refused(error) from None
        if self._principal is None:
            raise self._refused()
        return Step(final, self._principal)

    def _refused(self, error: Exception | None = None) -> LoginRefused:
        if self._name is not None and self._principal is None:
            return refused(self.mechanism, Why.UNKNOWN_USER, self._name)
        proof = getattr(error, "server_error", None) is _scramp().ServerError.INVALID_PROOF
        return refused(self.mechanism, Why.WRONG_PASSWORD if proof else Why.MALFORMED, self._name or "")

    def _keys(self, name: str) -> tuple[bytes, bytes, bytes, int]:
        self._name = name
        self._principal, credential = self._find(name)
        return credential.salt, credential.stored_key, credential.server_key, credential.iterations


class ScramClient:
    """The client's side: `first`, `final`, then `check` says whether the server knows the password too."""

    def __init__(self, mechanism: str, name: str, password: str, nonce: str) -> None:
        """Raises InvalidRequest for a name or a password that no login allows."""
        self._client = _scramp().ScramClient(
            [mechanism], prepared(name, "name"), prepared(password, "password"), c_nonce=nonce
        )

    def first(self) -> bytes:
        return str(self._client.get_client_first()).encode()

    def final(self, server_first: bytes) -> bytes:
        """Some milliseconds of work. Raises AuthenticationFailed for a message that no server sends, or that
        asks for more or less work than one may."""
        try:
            self._client.set_server_first(server_first.decode())
            iterations = int(self._client.iterations)
            if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
                raise AuthenticationFailed(
                    f"the server asks for {iterations} iterations, not {ITERATIONS_MIN} to {ITERATIONS_MAX}"
                )
            return str(self._client.get_client_final()).encode()
        except (_scramp().ScramException, UnicodeDecodeError) as error:
            raise AuthenticationFailed(f"the server's message is no SCRAM: {error}") from None

    def check(self, server_final: bytes) -> None:
        """Raises AuthenticationFailed for a server that does not know the password."""
        try:
            self._client.set_server_final(server_final.decode())
        except (_scramp().ScramException, UnicodeDecodeError):
            raise AuthenticationFailed("the server did not prove that it knows the user") from None
