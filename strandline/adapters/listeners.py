"""The second listener of a broker or a controller: for clients outside of the network that they share.

Whoever comes in by it is told external addresses, of this and of all other members, wherever an answer
names one; whoever comes in by the first is told those that the members use among themselves. A call knows by
which it came: each listener is a gRPC server of its own, and the outer one marks its calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import grpc

from strandline.errors import SettingsError
from strandline.metadata import Endpoint
from strandline.rpc import common_pb2

_from_outside: Final[ContextVar[bool]] = ContextVar("from_outside", default=False)
"""Of the call that is being answered. gRPC gives each call a task, and so a context, of its own."""

Request = TypeVar("Request")
Response = TypeVar("Response")


class FromOutside(grpc.aio.ServerInterceptor):
    """Marks the calls of a server as calls from outside. It comes before all other interceptors."""

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Request, Response] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Request, Response] | None:
        _from_outside.set(True)
        return await continuation(handler_call_details)


def external_server(
    host: str,
    port: int,
    advertised: str,
    options: Sequence[tuple[str, Any]],
    interceptors: Sequence[grpc.aio.ServerInterceptor],
) -> tuple[grpc.aio.Server, tuple[str, int]]:
    """A server on `port` of `host` that does not serve yet, and where clients outside reach it: at that port
    of `advertised`. Raises SettingsError if the address cannot be listened on."""
    server = grpc.aio.server(options=options, interceptors=[FromOutside(), *interceptors])
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise SettingsError(
            f"setting external_port = {port}: cannot listen on {host}:{port} (set STRANDLINE_EXTERNAL_PORT)"
        ) from error
    return server, (advertised, bound)


def endpoint_to_wire(endpoint: Endpoint) -> common_pb2.Endpoint:
    """Where the caller that is being answered reaches this member."""
    host, port = told(endpoint.host, endpoint.port, endpoint.external)
    return common_pb2.Endpoint(id=endpoint.id, host=host, port=port, rack=endpoint.rack)


def told(host: str, port: int, external: tuple[str, int] | None) -> tuple[str, int]:
    """Which of a member's two addresses the caller is told. A member with one has one for all."""
    return external if external is not None and _from_outside.get() else (host, port)
