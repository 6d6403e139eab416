"""SaslHandshake and SaslAuthenticate: a login on a Kafka connection."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import MalformedRequest, Part, Reader, Writer

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


def read_handshake(reader: Reader, version: int) -> SaslHandshakeRequest:
    return SaslHandshakeRequest(reader.string())


def write_handshake(writer: Writer, answer: SaslHandshakeAnswer, version: int) -> None:
    writer.int16(answer.error)
    writer.array(answer.mechanisms, writer.string)


def read_authenticate(reader: Reader, version: int) -> SaslAuthenticateRequest:
    return read_bare(reader.nullable_bytes() or b"")


def write_authenticate(writer: Writer, answer: SaslAuthenticateAnswer, version: int) -> None:
    writer.int16(answer.error)
    writer.string(answer.message)
    writer.blob(answer.token)
    if version >= 1:
        writer.int64(answer.lifetime_ms)
    writer.tags()


# --- messages without headers -----------------------------------------------------------------


def read_bare(token: Part) -> SaslAuthenticateRequest:
    """A frame that is the message itself: so they come after version 0 of SaslHandshake."""
    if len(token) > TOKEN_BYTES_MAX:
        raise MalformedRequest(f"the message of a login has at most {TOKEN_BYTES_MAX} bytes")
    return SaslAuthenticateRequest(bytes(token))


def bare_frame(answer: SaslAuthenticateAnswer) -> list[Part]:
    """The answer to such a message. A refusal has none: the connection ends."""
    return [] if answer.error else [len(answer.token).to_bytes(4, "big") + answer.token]
