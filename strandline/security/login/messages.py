"""The messages of a login over gRPC."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LoginMessage:
    """From the client. The first one names the mechanism of the whole login."""

    mechanism: str
    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class LoginAnswer:
    """From the server, to each message."""

    token: bytes = field(repr=False)
    session: str = field(default="", repr=False)
    """What calls on the same connection show; empty: the login goes on."""
    lifetime_ms: int = 0
    """How long the session counts; 0: as long as its connection."""
