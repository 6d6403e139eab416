"""One login at its server: messages in, messages out, and at the end a principal."""

from __future__ import annotations

from dataclasses import dataclass
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


def refused(mechanism: str) -> AuthenticationFailed:
    """The one refusal: it does not say whether the user exists."""
    return AuthenticationFailed(f"the name or the password is wrong (mechanism {mechanism})")
