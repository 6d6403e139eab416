"""OAUTHBEARER (RFC 7628): a signed token in one message. It needs a connection that is encrypted."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from strandline.errors import InvalidRequest
from strandline.security.login.mechanisms import OAUTHBEARER
from strandline.security.login.steps import Step, Why, refused
from strandline.security.login.tokens import InvalidToken, TokenUser
from strandline.security.principal import Principal

_MESSAGE: Final = re.compile(
    r"n,(?:a=(?P<role>[^,\x01]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x01]*\x01)+)\x01", re.ASCII
)
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/=-]+)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class OauthToken:
    """What a client's application gives for its logins."""

    token: str = field(repr=False)
    """A signed JSON Web Token (RFC 7519)."""
    expires_at_ms: int
    """When it ends, milliseconds since the Unix epoch: its `exp`, in milliseconds."""


class Tokens(Protocol):
    """Checks tokens with the keys of their issuer."""

    def prepare(self) -> None:
        """Have what the first login needs: some work, and reading. Raises SettingsError."""
        ...

    def user_of(self, token: str) -> TokenUser:
        """May read the keys first. Raises InvalidToken."""
        ...


class OauthLogin:
    """The server's side: one message. A step checks a signature, and may wait for the issuer's keys."""

    mechanism = OAUTHBEARER
    slow = True

    def __init__(self, tokens: Tokens, withholds: Callable[[Principal, str], bool]) -> None:
        """`withholds` as in `Authenticator`."""
        self._tokens = tokens
        self._withholds = withholds

    def step(self, token: bytes) -> Step:
        try:
            role, bearer = _read(token)
            user = self._tokens.user_of(bearer)
            principal = Principal(user.name)
            if self._withholds(principal, OAUTHBEARER):
                raise InvalidToken(
                    f"no token gives {principal}: it is a member of the cluster, or a super user "
                    "(super_users_by_token), or means any caller without a name"
                )
            if role not in ("", user.name):
                raise InvalidToken("the client asks for another name")
        except InvalidToken as reason:
            raise refused(OAUTHBEARER, Why.TOKEN) from reason
        return Step(b"", principal, user.ends_at)


def token_message(token: str) -> bytes:
    """The client's message. Raises InvalidRequest."""
    if not _BEARER.fullmatch(f"Bearer {token}"):
        raise InvalidRequest("the token has characters that no token has")
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def _read(message: bytes) -> tuple[str, str]:
    """The name that the client asks for, if any, and the token. Raises InvalidToken."""
    try:
        found = _MESSAGE.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise InvalidToken("the message has not the form of RFC 7628")
    pairs = (pair.partition("=") for pair in found["pairs"].split("\x01"))
    values = [value for name, _, value in pairs if name == "auth"]
    bearer = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    if bearer is None:
        raise InvalidToken("the message has no bearer token")
    return (found["role"] or "").replace("=2C", ",").replace("=3D", "="), bearer[1]
