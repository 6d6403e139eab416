"""Reports defects in gRPC handlers. gRPC itself only logs what a handler raises, and continues to serve."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, TypeVar

import grpc

from strandline.adapters.rpc.request_times import OWN_SERVICES
from strandline.adapters.system.fail_fast import defect_in, report

Request = TypeVar("Request")
Response = TypeVar("Response")
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # cannot be subscripted at run time
Behavior = Callable[[Any, Any], Awaitable[Any]]

_KINDS: Final = (
    ("unary_unary", grpc.unary_unary_rpc_method_handler),
    ("unary_stream", grpc.unary_stream_rpc_method_handler),
    ("stream_unary", grpc.stream_unary_rpc_method_handler),
    ("stream_stream", grpc.stream_stream_rpc_method_handler),
)


class GuardedCalls(grpc.aio.ServerInterceptor):
    """The interceptor for the handlers of one server, which are coroutines and streams. It comes
    before all other interceptors of strandline."""

    def __init__(self) -> None:
        self._guarded: dict[str, tuple[Handler, Handler]] = {}
        """For each call path: the handler, and the handler that is served in its place."""

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Request, Response] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Request, Response] | None:
        handler = await continuation(handler_call_details)
        path = str(handler_call_details.method)
        if handler is None or not path.startswith(OWN_SERVICES):
            return handler
        known = self._guarded.get(path)
        if known is None or known[0] is not handler:
            known = self._guarded[path] = handler, _guard(handler, path)
        return known[1]


def _guard(handler: Handler, path: str) -> Handler:
    for kind, make in _KINDS:
        behavior = getattr(handler, kind)
        if behavior is not None:
            return make(_reporting(behavior, path), handler.request_deserializer, handler.response_serializer)
    raise AssertionError(f"{path} is served by none of the four kinds of handlers")


def _reporting(behavior: Behavior, path: str) -> Behavior:
    async def guarded(request: Any, context: Any) -> Any:
        try:
            return await behavior(request, context)
        except Exception as error:
            if defect_in(error) is not None:
                report(error, f"call {path}")
            raise

    return guarded
