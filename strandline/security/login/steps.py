"""One login at its server: messages in, messages out, and at the end a principal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from strandline.errors import AuthenticationFailed
from strandline.security.principal import Principal


@dataclass(frozen=True, slots=True)
class Step:
    """The answer to one message of a client."""

    token: bytes
    principal: Principal | None = None
    """Who the client is, once it has proved it; None: the login goes on."""


class Login(Protocol):
    """One attempt."""

    mechanism: str
    slow: bool
    """True if a step is work of milliseconds, which belongs into a thread."""

    def step(self, token: bytes) -> Step:
        """Raises AuthenticationFailed, after which the login is over."""
        ...


class Why(Enum):
    """Why a login was refused. The client is not told."""

    MALFORMED = "malformed"
    """The message is none of its mechanism."""
    UNKNOWN_USER = "unknown user"
    """The user does not exist, has no password for the mechanism, or has the name of a member."""
    WRONG_PASSWORD = "wrong password"
    OTHER_USER = "other user"
    """The login was renewed by another user, or by another mechanism."""
    NO_MECHANISM = "mechanism not enabled"
    OUT_OF_ORDER = "out of order"
    TOO_MANY = "too many"
    CERTIFICATE = "certificate"
    """A certificate that gives no principal."""


class LoginRefused(AuthenticationFailed):
    """A caller has not proved its name. The message is for the caller, the reason is not."""

    def __init__(self, message: str, why: Why, user: str = "") -> None:
        """`user`: the name that the client claimed, if it could be read."""
        super().__init__(message)
        self.why = why
        self.user = user


def refused(mechanism: str, why: Why, user: str = "") -> LoginRefused:
    """The one refusal: its message does not say whether the user exists."""
    return LoginRefused(f"the name or the password is wrong (mechanism {mechanism})", why, user)
