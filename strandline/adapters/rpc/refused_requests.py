"""Counts and logs malformed requests.

It is also an interceptor for services that are not our own, as the health service: it parses their requests
in gRPC's place, so that malformed bytes get a typed answer and cost no traceback.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import grpc
import structlog
from google.protobuf.message import Message

from strandline.adapters.rpc.parsing import MalformedRequest, parse
from strandline.adapters.rpc.wire_errors import abort
from strandline.adapters.telemetry.metrics import Sample, counter
from strandline.errors import StrandlineError
from strandline.ports import Clock

logger = structlog.get_logger(__name__)

LOGGED_EVERY_S: Final = 60.0

MALFORMED: Final = counter(
    "strandline_malformed_requests_total",
    "Requests of each kind that could not be parsed, or had more elements than one may have.",
    "request",
)

Request = TypeVar("Request")
Response = TypeVar("Response")
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # not one that can be subscripted at run time
OneRequest = Callable[[Any, Any], Awaitable[Any]]
Context = Any  # grpc.aio.ServicerContext, of whatever the handler takes and answers


class RefusedRequests(grpc.aio.ServerInterceptor):
    """The malformed requests of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._logged: dict[str, float] = {}

    def note(self, error: StrandlineError, peer: str) -> None:
        """Count a malformed request, and log it unless one of its kind was logged within LOGGED_EVERY_S."""
        if not isinstance(error, MalformedRequest):
            return
        self._counts[error.kind] += 1
        now = self._clock.monotonic()
        if now - self._logged.get(error.kind, -LOGGED_EVERY_S) >= LOGGED_EVERY_S:
            self._logged[error.kind] = now
            logger.warning(
                "malformed request",
                request=error.kind,
                peer=peer,
                reason=error.message,
                so_far=self._counts[error.kind],
            )

    def read(self) -> Sequence[Sample]:
        return [MALFORMED.is_now(count, kind) for kind, count in self._counts.items()]

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
            return grpc.unary_unary_rpc_method_handler(
                self._parsed(handler.unary_unary, kind), None, handler.response_serializer
            )
        call: Any = handler.unary_stream  # gRPC's stubs know no coroutines that write to the context
        assert call is not None, f"{handler_call_details.method} takes a stream of requests"
        return grpc.unary_stream_rpc_method_handler(
            self._parsed(call, kind), None, handler.response_serializer
        )

    def _parsed(self, call: OneRequest, kind: type[Message]) -> OneRequest:
        async def served(data: bytes, context: Context) -> Any:
            try:
                request = parse(kind, data)
            except MalformedRequest as error:
                refusal = error
            else:
                return await call(request, context)
            self.note(refusal, context.peer())
            return await abort(context, refusal)

        return served
