"""gRPC's asyncio server, which the name of a call cannot end.

grpcio decodes the name of every call that it takes as *generic*, in the loop that accepts calls. A name that
is not UTF-8 ends that loop, and the server with it. So all served methods are *registered* here: gRPC's core
finds them by comparing bytes. The calls that remain have names that are not served, and are answered with
UNIMPLEMENTED without a look at their names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import grpc
import structlog
from grpc._cython import cygrpc
from grpc.aio._server import Server, _augment_channel_arguments

logger = structlog.get_logger(__name__)

HAS_HOOKS: Final = all(
    hasattr(cygrpc, name) for name in ("_handle_rpc", "_schedule_rpc_coro", "_MethodResolver")
) and hasattr(cygrpc.AioServer, "_make_request_call_future")
"""False for a version of grpcio whose server is another one."""

_UNKNOWN: Final = "unknown"


def new_grpc_server(
    *,
    options: Sequence[tuple[str, int | str]],
    interceptors: Sequence[grpc.aio.ServerInterceptor],
    maximum_concurrent_rpcs: int,
) -> grpc.aio.Server:
    """As `grpc.aio.server`. Its methods have to be added by `add_registered_method_handlers`."""
    if not HAS_HOOKS:
        logger.warning(
            "this version of grpcio is not known: a call whose name is not UTF-8 may end the process",
            grpcio=grpc.__version__,
        )
        return grpc.aio.server(
            options=options, interceptors=interceptors, maximum_concurrent_rpcs=maximum_concurrent_rpcs
        )
    server: grpc.aio.Server = _Server(options, interceptors, maximum_concurrent_rpcs)  # type: ignore[assignment]
    return server


class _Server(Server):
    """Differs from grpcio's in the object that accepts calls."""

    def __init__(
        self,
        options: Sequence[tuple[str, int | str]],
        interceptors: Sequence[grpc.aio.ServerInterceptor],
        maximum_concurrent_rpcs: int,
    ) -> None:
        super().__init__(None, (), interceptors, options, maximum_concurrent_rpcs, None)
        arguments = _augment_channel_arguments(options, None)
        self._server = _AcceptingServer(
            self._loop, None, (), interceptors, arguments, maximum_concurrent_rpcs
        )


class _AcceptingServer(cygrpc.AioServer):  # type: ignore[misc]  # it has no types
    """Its loop gets registered calls alone; `_answer_unknown` takes the others."""

    def _make_request_call_future(self, method: bytes | None) -> Any:
        """grpcio's loop waits for this: the next call of a registered method, or with None of any other."""
        if method is not None:
            return super()._make_request_call_future(method)
        return asyncio.get_running_loop().create_task(self._answer_unknown())

    async def _answer_unknown(self) -> Any:
        """Ends with the error with which gRPC's core says that the server stops."""
        loop = asyncio.get_running_loop()
        resolver = cygrpc._MethodResolver([], {})
        async with asyncio.TaskGroup() as answers:
            while (call := await self._next_unknown()) is not None:
                answer = cygrpc._handle_rpc(_UNKNOWN, resolver, (), call, loop, False)
                answers.create_task(cygrpc._schedule_rpc_coro(answer, call, loop, _UNKNOWN))
        raise cygrpc._RequestCallError

    async def _next_unknown(self) -> Any:
        """A call with a name that is not served; None if the server stops."""
        try:
            return await self._request_call()
        except cygrpc._RequestCallError:
            return None
