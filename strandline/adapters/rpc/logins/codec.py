"""The RPC of `strandline.v1.Auth`, with the values of `strandline.security.login.messages`.

It is written by hand: the codecs of the other services are above the transport, which needs this one.
"""

from __future__ import annotations

from typing import Final

from strandline.adapters.rpc.request_parsing import MalformedRequest, parse
from strandline.config.limits import KIB
from strandline.ports import Listener, Method, Rpc
from strandline.rpc import auth_pb2
from strandline.security.login.messages import LoginAnswer, LoginMessage

LOGIN_BYTES_MAX: Final = 64 * KIB
"""The longest message: callers send it before they are known."""
PATH: Final = "/strandline.v1.Auth/Authenticate"


def _encode_message(message: LoginMessage) -> bytes:
    return auth_pb2.AuthenticateRequest(mechanism=message.mechanism, token=message.token).SerializeToString()


def _decode_message(data: bytes) -> LoginMessage:
    if len(data) > LOGIN_BYTES_MAX:
        raise MalformedRequest(
            f"a message of a login has {len(data)} bytes, more than {LOGIN_BYTES_MAX}",
            kind=auth_pb2.AuthenticateRequest.__name__,
            limit=LOGIN_BYTES_MAX,
        )
    request = parse(auth_pb2.AuthenticateRequest, data)
    return LoginMessage(request.mechanism, request.token)


def _encode_answer(answer: LoginAnswer, to: Listener) -> bytes:
    return auth_pb2.AuthenticateResponse(
        token=answer.token, session=answer.session, lifetime_ms=answer.lifetime_ms
    ).SerializeToString()


def _decode_answer(data: bytes) -> LoginAnswer:
    answer = auth_pb2.AuthenticateResponse.FromString(data)
    return LoginAnswer(answer.token, answer.session, answer.lifetime_ms)


AUTHENTICATE: Final = Method(PATH, _encode_message, _decode_answer)
SERVED_AUTHENTICATE: Final = Rpc(PATH, _decode_message, _encode_answer)
