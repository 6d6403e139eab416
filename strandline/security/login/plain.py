"""PLAIN (RFC 4616): the password itself, in one message. It needs a connection that is encrypted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from strandline.errors import InvalidRequest
from strandline.security.login.credentials import Credential, is_password
from strandline.security.login.mechanisms import PLAIN
from strandline.security.login.steps import Step, Why, refused
from strandline.security.principal import Principal


class PlainLogin:
    """The server's side: one message. A step is PBKDF2 of the password that was sent."""

    mechanism = PLAIN
    slow = True

    def __init__(self, find: Callable[[str], Sequence[tuple[Principal | None, Credential]]]) -> None:
        """`find` gives a credential for each mechanism, whether the user has one or not. All of them are
        compared, so that the time says nothing about them."""
        self._find = find

    def step(self, token: bytes) -> Step:
        try:
            role, name, password = token.decode().split("\0")
        except (UnicodeDecodeError, ValueError):
            raise refused(PLAIN, Why.MALFORMED) from None
        found = self._find(name)
        compared = [(is_password(credential, password), principal) for principal, credential in found]
        proved = next((principal for right, principal in compared if right and principal is not None), None)
        if proved is None or role not in ("", name):
            exists = any(principal is not None for principal, _ in found)
            raise refused(PLAIN, Why.WRONG_PASSWORD if exists else Why.UNKNOWN_USER, name)
        return Step(b"", proved)


def plain_message(name: str, password: str) -> bytes:
    """The client's message. Raises InvalidRequest."""
    if "\0" in name or "\0" in password:
        raise InvalidRequest("neither a name nor a password may have a zero byte")
    return f"\0{name}\0{password}".encode()
