"""Converts typed errors to and from the `Error` message, and to and from the status of an aborted call."""

from __future__ import annotations

from typing import Final, NoReturn, TypeVar

import grpc

from strandline.adapters.rpc.reachable_address import reachable_address
from strandline.errors import (
    AuthenticationFailed,
    ErrorCode,
    IllegalSaslState,
    InvalidRequest,
    LeaderHint,
    StrandlineError,
    error_for,
)
from strandline.ports import Listener
from strandline.rpc import common_pb2

Request = TypeVar("Request")
Response = TypeVar("Response")

ERROR_METADATA: Final = "strandline-error-bin"
"""Trailing metadata of an aborted call: the serialized `Error`."""
_DETAILS_CHARS_MAX: Final = 300
"""Longest message in the status of a call, for people. It is sent as a header, and headers are limited."""
_MESSAGE_CHARS_MAX: Final = 1_000
"""Longest message in the trailing metadata."""
_NOT_CONNECTED: Final = "failed to connect to all addresses"


def error_to_wire(error: StrandlineError, to: Listener) -> common_pb2.Error:
    """The error for a caller at that listener."""
    message = common_pb2.Error(
        code=error.code,
        message=error.message,
        limit=error.limit or 0,
        retry_after_ms=error.retry_after_ms or 0,
    )
    if error.leader is not None:
        leader = error.leader
        message.leader.id = leader.broker_id
        message.leader.host, message.leader.port = reachable_address(
            leader.host, leader.port, leader.external, to
        )
        message.leader_epoch = leader.leader_epoch
    return message


def error_from_wire(message: common_pb2.Error) -> StrandlineError | None:
    """The exception, or None for success."""
    if message.code == ErrorCode.NONE:
        return None
    leader = None
    if message.HasField("leader"):
        end = message.leader
        leader = LeaderHint(end.id, end.host, end.port, message.leader_epoch)
    error = error_for(message.code, message.message, leader=leader, limit=message.limit)
    error.retry_after_ms = message.retry_after_ms or None
    return error


def refuse(message: common_pb2.Error) -> None:
    """Raises the error in an answer, if there is one."""
    error = error_from_wire(message)
    if error is not None:
        raise error


def error_to_bytes(error: StrandlineError, to: Listener) -> bytes:
    """The error that ends a call; its message is cut if it is long."""
    wire = error_to_wire(error, to)
    wire.message = wire.message[:_MESSAGE_CHARS_MAX]
    return wire.SerializeToString()


def error_from_bytes(data: bytes) -> StrandlineError | None:
    return error_from_wire(common_pb2.Error.FromString(data))


async def abort(
    context: grpc.aio.ServicerContext[Request, Response], error: StrandlineError, to: Listener
) -> NoReturn:
    """End the call with this error; `error_of_call` decodes it on the other side."""
    if isinstance(error, InvalidRequest):
        status = grpc.StatusCode.INVALID_ARGUMENT
    elif isinstance(error, AuthenticationFailed | IllegalSaslState):
        status = grpc.StatusCode.UNAUTHENTICATED
    elif error.retriable:
        status = grpc.StatusCode.UNAVAILABLE
    else:
        status = grpc.StatusCode.FAILED_PRECONDITION
    metadata = ((ERROR_METADATA, error_to_bytes(error, to)),)
    await context.abort(status, error.message[:_DETAILS_CHARS_MAX], metadata)
    raise AssertionError("abort returned")


def error_of_call(error: grpc.aio.AioRpcError | grpc.Call) -> StrandlineError | None:
    """The typed error with which a call was aborted, None if gRPC ended it for another reason."""
    for key, value in error.trailing_metadata() or ():
        if key == ERROR_METADATA and isinstance(value, bytes):
            return error_from_bytes(value)
    return None


def never_sent(error: grpc.aio.AioRpcError) -> bool:
    """True if the call was not sent, because there was no connection.

    gRPC shows this only in the text: UNAVAILABLE is also the status of a connection lost during a
    call.
    """
    return error.code() is grpc.StatusCode.UNAVAILABLE and (error.details() or "").startswith(_NOT_CONNECTED)
