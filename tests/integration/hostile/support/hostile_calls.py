"""Sends hostile messages by any RPC. Each answer is typed, and no failure is the server's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc._cython import cygrpc

from strandline.adapters.rpc.wire_errors import error_of_call
from strandline.errors import UnknownServerError

OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))

CLIENT_SIDE: Final = "Internal error from Core"
"""gRPC's message for a write to a stream that the other side has ended."""

OF_GRPC: Final = {
    grpc.StatusCode.OK,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,  # the test's own
    grpc.StatusCode.RESOURCE_EXHAUSTED,  # a message over the limit
    grpc.StatusCode.UNAVAILABLE,
}
"""How a call may end without a typed error."""


@dataclass(frozen=True, slots=True)
class Rpc:
    path: str
    request: type[Message]
    response: type[Message]
    takes_stream: bool
    gives_stream: bool

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def rpcs_of(module: ModuleType, service: str) -> list[Rpc]:
    """All RPCs of a service of a generated module."""
    return [
        Rpc(
            f"/{module.DESCRIPTOR.package}.{service}/{method.name}",
            GetMessageClass(method.input_type),
            GetMessageClass(method.output_type),
            method.client_streaming,
            method.server_streaming,
        )
        for method in module.DESCRIPTOR.services_by_name[service].methods
    ]


async def send(opened: grpc.aio.Channel, rpc: Rpc, messages: Iterable[bytes], timeout_s: float) -> int:
    """Make one call with these messages, or with the first one if it takes one. Returns how many it took.

    An AssertionError has an answer, or the end of the call, that tells of a defect.
    """
    channel: Any = opened  # its stubs do not know messages that are bytes
    sent = 0
    try:
        if rpc.takes_stream:
            call = channel.stream_stream(rpc.path)(timeout=timeout_s)
            sent = await _write(call, messages)
            async for answer in call:
                _check(rpc.response.FromString(answer))
        else:
            sent = 1
            message = next(iter(messages))
            if rpc.gives_stream:
                async for answer in channel.unary_stream(rpc.path)(message, timeout=timeout_s):
                    _check(rpc.response.FromString(answer))
            else:
                answer = await channel.unary_unary(rpc.path)(message, timeout=timeout_s)
                _check(rpc.response.FromString(answer))
    except grpc.aio.AioRpcError as error:
        typed = error_of_call(error)
        assert not isinstance(typed, UnknownServerError), typed
        ended = error.details() == CLIENT_SIDE
        assert typed is not None or ended or error.code() in OF_GRPC, error
    return sent


async def _write(call: Any, messages: Iterable[bytes]) -> int:
    sent = 0
    try:
        for message in messages:
            await call.write(message)
            sent += 1
        await call.done_writing()
    except asyncio.InvalidStateError:
        pass  # it ended meanwhile
    except (grpc.aio.AioRpcError, cygrpc.ExecuteBatchError):
        pass  # as it says again when it is read
    return sent


def _check(message: Message) -> None:
    for error in _errors(message):
        assert error.code >= 0, f"an error that is not typed: {error}"
        assert len(error.message) < 3_000


def _errors(message: Message) -> Iterator[Any]:
    """All `Error`s in an answer."""
    for field, value in message.ListFields():
        for each in value if field.is_repeated else [value]:
            if isinstance(each, Message):
                if each.DESCRIPTOR.name == "Error":
                    yield each
                else:
                    yield from _errors(each)
