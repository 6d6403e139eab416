"""Parses the requests of services that are not our own, as the health service, in gRPC's place, and counts
their calls.

Malformed bytes get a typed answer and cost no traceback. A call counts for its address before its request
is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message

from strandline.adapters.rpc.request_parsing import MalformedRequest, parse
from strandline.adapters.rpc.server.held_calls import HeldCalls, TooManyCalls, host_of
from strandline.adapters.rpc.wire_errors import abort
from strandline.errors import StrandlineError
from strandline.ports import Listener

Request = TypeVar("Request")
Response = TypeVar("Response")
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # not one that can be subscripted at run time
OneRequest = Callable[[Any, Any], Awaitable[Any]]
Context = Any  # grpc.aio.ServicerContext, with the handler's types of request and answer


async def only_request(context: Context, kind: str) -> bytes:
    """The request of a call that has one. Raises MalformedRequest if it comes without."""
    data = await context.read()
    if data is grpc.aio.EOF:
        raise MalformedRequest("a call without a request", kind=kind)
    assert isinstance(data, bytes)
    return data


class ParsingInterceptor(grpc.aio.ServerInterceptor):
    """For one server. `on_refused` gets the error of each refused request, and the connection."""

    def __init__(self, on_refused: Callable[[StrandlineError, str], None], held: HeldCalls) -> None:
        self._on_refused = on_refused
        self._held = held

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Request, Response] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Request, Response] | None:
        handler: Handler | None = await continuation(handler_call_details)
        if handler is None or handler.request_deserializer is None:
            return handler  # not served, or one of our own calls
        kind = getattr(handler.request_deserializer, "__self__", None)
        assert kind is not None, f"{handler_call_details.method} is not parsed by a message's FromString"
        if handler.unary_unary is not None:
            return grpc.stream_unary_rpc_method_handler(
                self._parsed(handler.unary_unary, kind), None, handler.response_serializer
            )
        call: Any = handler.unary_stream  # gRPC's stubs know no coroutines that write to the context
        assert call is not None, f"{handler_call_details.method} takes a stream of requests"
        return grpc.stream_stream_rpc_method_handler(
            self._parsed(call, kind), None, handler.response_serializer
        )

    def _parsed(self, call: OneRequest, kind: type[Message]) -> OneRequest:
        async def served(_: object, context: Context) -> Any:
            try:
                with self._held.one(host_of(context.peer())):
                    return await call(parse(kind, await only_request(context, kind.__name__)), context)
            except (MalformedRequest, TooManyCalls) as error:
                refusal: StrandlineError = error
            self._on_refused(refusal, context.peer())
            return await abort(context, refusal, Listener.INTERNAL)

        return served
