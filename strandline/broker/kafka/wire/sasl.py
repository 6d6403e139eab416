"""SaslHandshake and SaslAuthenticate: a login on a Kafka connection."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import MalformedRequest, Part
from strandline.broker.kafka.wire.table.rows import (
    BYTES,
    ERROR,
    INT64,
    MESSAGE,
    PART,
    STRING,
    Array,
    Struct,
    row,
)

TOKEN_BYTES_MAX: Final = 16 * 1024
"""The largest message of a login."""


class SaslHandshakeRequest(NamedTuple):
    mechanism: str


class SaslHandshakeAnswer(NamedTuple):
    mechanisms: tuple[str, ...]
    """Those that are enabled."""
    error: int = 0


class SaslAuthenticateRequest(NamedTuple):
    token: bytes


class SaslAuthenticateAnswer(NamedTuple):
    token: bytes = b""
    error: int = 0
    message: str | None = None
    lifetime_ms: int = 0
    """How long the login counts; the client may log in again before (KIP-368). 0: as long as the connection,
    or the login goes on."""


def _bounded(token: Part) -> bytes:
    if len(token) > TOKEN_BYTES_MAX:
        raise MalformedRequest(f"the message of a login has at most {TOKEN_BYTES_MAX} bytes")
    return bytes(token)


HANDSHAKE_REQUEST: Final = Struct(SaslHandshakeRequest, STRING("mechanism"))
HANDSHAKE_ANSWER: Final = Struct(SaslHandshakeAnswer, ERROR, row("mechanisms", Array(STRING)))

AUTHENTICATE_REQUEST: Final = Struct(SaslAuthenticateRequest, PART("auth_bytes", "token", read=_bounded))
AUTHENTICATE_ANSWER: Final = Struct(
    SaslAuthenticateAnswer,
    ERROR,
    MESSAGE,
    BYTES("auth_bytes", "token"),
    INT64("session_lifetime_ms", "lifetime_ms", since=1),
)


# --- messages without headers -----------------------------------------------------------------


def read_bare(token: Part) -> SaslAuthenticateRequest:
    """A frame that is the message itself: so they come after version 0 of SaslHandshake."""
    return SaslAuthenticateRequest(_bounded(token))


def bare_frame(answer: SaslAuthenticateAnswer) -> list[Part]:
    """The answer to such a message. A refusal has none: the connection ends."""
    return [] if answer.error else [len(answer.token).to_bytes(4, "big") + answer.token]
