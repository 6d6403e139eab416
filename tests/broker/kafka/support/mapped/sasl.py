"""SaslHandshake and SaslAuthenticate."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE
from strandline.broker.kafka.wire.sasl import (
    SaslAuthenticateAnswer,
    SaslAuthenticateRequest,
    SaslHandshakeAnswer,
    SaslHandshakeRequest,
)
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped


def handshake_request(asked: Values, version: int) -> SaslHandshakeRequest:
    return SaslHandshakeRequest(asked["mechanism"])


def handshake_answer(found: Values, version: int) -> SaslHandshakeAnswer:
    return SaslHandshakeAnswer(tuple(found["mechanisms"]), found["error_code"])


def authenticate_request(asked: Values, version: int) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(asked["auth_bytes"])


def authenticate_answer(found: Values, version: int) -> SaslAuthenticateAnswer:
    return SaslAuthenticateAnswer(
        found["auth_bytes"],
        found["error_code"],
        found["error_message"],
        found.get("session_lifetime_ms", 0),
    )


MAPPED: Final = (
    Mapped(SASL_HANDSHAKE, handshake_request, handshake_answer),
    Mapped(SASL_AUTHENTICATE, authenticate_request, authenticate_answer),
)
