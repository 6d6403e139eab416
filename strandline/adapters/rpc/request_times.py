"""Measures request durations: one histogram for each kind of request. An interceptor times unary
calls; the handlers of streams time their own requests, since one stream carries many."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import grpc

from strandline.adapters.telemetry.metrics import Histogram, Sample, histogram
from strandline.ports import Clock

OWN_SERVICES: Final = "/strandline."
"""Health checks are not timed."""

TOTAL_TIME_MS: Final = histogram(
    "kafka_network_requestmetrics_totaltimems",
    "How long requests took to be answered, milliseconds, long polls included; all kinds of `request` are "
    "the names of calls, `Produce` and `Fetch` for those within streams.",
    "request",
)

Request = TypeVar("Request")
Response = TypeVar("Response")
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # cannot be subscripted at run time


class RequestTimes(grpc.aio.ServerInterceptor):
    """The durations of one server's requests. `clock` returns seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._histograms: dict[str, Histogram] = {}
        self._timed: dict[str, Handler] = {}
        """By call path; only served paths have an entry."""

    def of(self, request: str) -> Histogram:
        """The histogram of this kind of request, milliseconds."""
        return self._histograms.setdefault(request, Histogram())

    def now(self) -> float:
        """The start time to pass to `since_ms`."""
        return self._clock.monotonic()

    def since_ms(self, began: float) -> float:
        return (self._clock.monotonic() - began) * 1000

    def read(self) -> Sequence[Sample]:
        return [TOTAL_TIME_MS.is_now(each.read(), name) for name, each in self._histograms.items()]

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Request, Response] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Request, Response] | None:
        path = str(handler_call_details.method)
        timed: Handler | None = self._timed.get(path)
        if timed is None:
            timed = await continuation(handler_call_details)
            if timed is None or timed.unary_unary is None or not path.startswith(OWN_SERVICES):
                return timed
            self._timed[path] = timed = self._time(timed, path.rpartition("/")[2])
        return timed

    def _time(self, handler: Handler, request: str) -> Handler:
        times, call = self.of(request), handler.unary_unary
        assert call is not None

        async def timed(message: Any, context: Any) -> Any:
            began = self._clock.monotonic()
            try:
                return await call(message, context)
            finally:
                times.observe(self.since_ms(began))

        return grpc.unary_unary_rpc_method_handler(
            timed, handler.request_deserializer, handler.response_serializer
        )
