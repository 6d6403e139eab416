"""Sends typed errors for requests that a handler refuses, and for bytes that are no request.

One interceptor for all services: it parses the requests instead of gRPC, so that malformed bytes
cause no traceback, and it ends a call with the typed error that its handler raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import grpc
import structlog

from strandline.adapters.rpc.parsing import REQUEST_ELEMENTS_MAX, MalformedRequest, parse
from strandline.adapters.rpc.request_times import Handler
from strandline.adapters.rpc.wire_errors import abort
from strandline.adapters.telemetry.metrics import Sample, counter
from strandline.config import REPLICAS_PER_BROKER_MAX
from strandline.errors import StrandlineError
from strandline.ports import Clock
from strandline.tasks import group_caught

logger = structlog.get_logger(__name__)

LOGGED_EVERY_S: Final = 60.0

ELEMENTS_MAX: Final[Mapping[str, int]] = {
    # A follower may begin, end and report a flow for each replica in one message.
    "/strandline.v1.Replication/ReplicaFetch": 4 * REPLICAS_PER_BROKER_MAX
}
"""Limits by call path, where they differ from REQUEST_ELEMENTS_MAX."""

MALFORMED: Final = counter(
    "strandline_malformed_requests_total",
    "Requests of each kind that could not be parsed, or had more elements than one may have.",
    "request",
)

Request = TypeVar("Request")
Response = TypeVar("Response")
Parse = Callable[[bytes], Any]
OneRequest = Callable[[Any, Any], Awaitable[Any]]
ManyRequests = Callable[[AsyncIterator[Any], Any], Awaitable[None]]
Context = Any  # grpc.aio.ServicerContext, for any request and response types


class RefusedRequests(grpc.aio.ServerInterceptor):
    """The interceptor of one process. It comes before `RequestTimes`, so that refused requests are
    not timed."""

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
            return handler  # not served, or a service that parses its own requests
        path = str(handler_call_details.method)
        kind = getattr(handler.request_deserializer, "__self__", None)
        assert kind is not None, f"{path} is not parsed by a message's FromString"
        elements_max = ELEMENTS_MAX.get(path, REQUEST_ELEMENTS_MAX)
        return self._typed(handler, partial(parse, kind, elements_max=elements_max))

    def _typed(self, handler: Handler, parse: Parse) -> Handler:
        answer = handler.response_serializer
        if handler.unary_unary is not None:
            served = self._one_request(handler.unary_unary, parse)
            return grpc.unary_unary_rpc_method_handler(served, None, answer)
        if handler.unary_stream is not None:
            call: Any = handler.unary_stream  # gRPC's stubs do not type coroutines that write to the context
            served = self._one_request(call, parse)
            return grpc.unary_stream_rpc_method_handler(served, None, answer)
        assert handler.stream_stream is not None, "no service has a call of this kind"
        streamed: Any = handler.stream_stream
        return grpc.stream_stream_rpc_method_handler(self._many(streamed, parse), None, answer)

    def _one_request(self, call: OneRequest, parse: Parse) -> OneRequest:
        async def served(data: bytes, context: Context) -> Any:
            try:
                return await call(parse(data), context)
            except StrandlineError as error:
                refusal = error
            await self._refuse(context, refusal)

        return served

    def _many(self, call: ManyRequests, parse: Parse) -> ManyRequests:
        async def parsed(requests: AsyncIterator[bytes]) -> AsyncIterator[Any]:
            async for data in requests:
                yield parse(data)

        async def served(requests: AsyncIterator[bytes], context: Context) -> None:
            refusal: StrandlineError | None = None
            try:
                with group_caught():
                    await call(parsed(requests), context)
            except* StrandlineError as group:
                refusal = _first(group)
            if refusal is not None:  # not in `except*`: an exception raised there leaves as a group
                await self._refuse(context, refusal)

        return served

    async def _refuse(self, context: Context, refusal: StrandlineError) -> None:
        self.note(refusal, context.peer())
        await abort(context, refusal)


def _first(group: BaseExceptionGroup[StrandlineError]) -> StrandlineError:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
