"""One login at its server: messages in, messages out, and at the end a principal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from strandline.errors import AuthenticationFailed
from strandline.security.login.mechanisms import OAUTHBEARER
from strandline.security.principal import Principal


@dataclass(frozen=True, slots=True)
class Step:
    """The answer to one message of a client."""

    token: bytes
    principal: Principal | None = None
    """Who the client is, once it has proved it; None: the login goes on."""
    ends_at: float | None = None
    """When the proof ends, in seconds since the epoch; None: never."""


def session_ms(step: Step, lifetime_ms: int, now_ms: int) -> int:
    """How long the login that this step ended counts, in milliseconds; 0: as long as its connection.

    `lifetime_ms`: the longest; 0: there is none. `now_ms`: since the epoch.
    """
    if step.ends_at is None:
        return lifetime_ms
    left_ms = max(1, int(step.ends_at * 1000) - now_ms)
    return min(left_ms, lifetime_ms) if lifetime_ms else left_ms


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
    TOKEN = "token not accepted"
    """The log of the process has the reason."""
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
    """The one refusal of a mechanism: its message does not say whether the user exists, nor what is wrong
    with a token."""
    what = "the token is not accepted" if mechanism == OAUTHBEARER else "the name or the password is wrong"
    return LoginRefused(f"{what} (mechanism {mechanism})", why, user)
