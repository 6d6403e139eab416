"""Typed errors ↔ the `Error` message, and a typed error as the status of a call that has no place for one."""

from __future__ import annotations

from typing import Final, NoReturn, TypeVar

import grpc

from strandline.adapters.rpc.listeners import address_for_caller
from strandline.errors import (
    ErrorCode,
    InvalidRequest,
    LeaderHint,
    StrandlineError,
    error_for,
)
from strandline.rpc import common_pb2

Request = TypeVar("Request")
Response = TypeVar("Response")

ERROR_METADATA: Final = "strandline-error-bin"
"""Trailing metadata of an aborted call: the `Error`, serialized."""
_DETAILS_CHARS_MAX: Final = 300
"""Of a message in the status of a call, for people. It travels as a header, and headers are bounded."""
_MESSAGE_CHARS_MAX: Final = 1_000
"""Of a message in the trailing metadata."""
_NOT_CONNECTED: Final = "failed to connect to all addresses"


def error_to_wire(error: StrandlineError) -> common_pb2.Error:
    message = common_pb2.Error(code=error.code, message=error.message, limit=error.limit or 0)
    if error.leader is not None:
        leader = error.leader
        message.leader.id = leader.broker_id
        message.leader.host, message.leader.port = address_for_caller(
            leader.host, leader.port, leader.external
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
    return error_for(message.code, message.message, leader=leader, limit=message.limit)


def refuse(message: common_pb2.Error) -> None:
    """Raises the error that an answer carries, if it carries one."""
    error = error_from_wire(message)
    if error is not None:
        raise error


async def abort(context: grpc.aio.ServicerContext[Request, Response], error: StrandlineError) -> NoReturn:
    """End the call with this error; `error_of_call` finds it again on the other side."""
    wire = error_to_wire(error)
    wire.message = wire.message[:_MESSAGE_CHARS_MAX]
    if isinstance(error, InvalidRequest):
        status = grpc.StatusCode.INVALID_ARGUMENT
    elif error.retriable:
        status = grpc.StatusCode.UNAVAILABLE
    else:
        status = grpc.StatusCode.FAILED_PRECONDITION
    metadata = ((ERROR_METADATA, wire.SerializeToString()),)
    await context.abort(status, error.message[:_DETAILS_CHARS_MAX], metadata)
    raise AssertionError("abort returned")


def error_of_call(error: grpc.aio.AioRpcError | grpc.Call) -> StrandlineError | None:
    """The typed error that a call was aborted with, None if it ended for a reason of gRPC's own."""
    for key, value in error.trailing_metadata() or ():
        if key == ERROR_METADATA and isinstance(value, bytes):
            return error_from_wire(common_pb2.Error.FromString(value))
    return None


def never_sent(error: grpc.aio.AioRpcError) -> bool:
    """True if there was no connection that the call could have been sent by.

    gRPC has no other sign of it: UNAVAILABLE is the status of a connection lost half way, too.
    """
    return error.code() is grpc.StatusCode.UNAVAILABLE and (error.details() or "").startswith(_NOT_CONNECTED)
