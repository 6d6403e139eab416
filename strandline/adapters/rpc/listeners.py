"""The second listener of a broker or a controller, for clients outside the network of the cluster.

Calls through the second listener get external addresses, of this and of all other brokers and
controllers, wherever an answer names one; calls through the first listener get the addresses inside
the network. Each listener is a gRPC server of its own, and the second one marks its calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Final, TypeVar

import grpc

from strandline.adapters.system.descriptors import connection_options
from strandline.config import MESSAGE_BYTES_MAX, ListenerSettings
from strandline.errors import SettingsError
from strandline.rpc import common_pb2
from strandline.vocabulary.metadata import Endpoint

_from_outside: Final[ContextVar[bool]] = ContextVar("from_outside", default=False)
"""Whether the call being answered came from outside. gRPC gives each call a task, and so a context,
of its own."""

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


def new_server(
    settings: ListenerSettings, interceptors: Sequence[grpc.aio.ServerInterceptor]
) -> grpc.aio.Server:
    """A server without a port, with the connection limits that all brokers and controllers have."""
    options = (
        *connection_options(1 if settings.external_port is None else 2),
        ("grpc.so_reuseport", 0),  # a second process on this port must fail
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", -1),
        # Peers ping to detect a hung process; with gRPC's defaults the server would close their
        # connections for it.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 500),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.server_handshake_timeout_ms", settings.handshake_timeout_ms),
        ("grpc.max_concurrent_streams", settings.connection_calls_max),
        # gRPC may refuse headers above the first limit, at random, and always refuses those above
        # the second.
        ("grpc.max_metadata_size", settings.call_headers_bytes_max),
        ("grpc.absolute_max_metadata_size", settings.call_headers_bytes_max),
    )
    return grpc.aio.server(
        options=options, interceptors=list(interceptors), maximum_concurrent_rpcs=settings.calls_max
    )


def external_server(
    settings: ListenerSettings,
    host: str,
    port: int,
    advertised: str,
    interceptors: Sequence[grpc.aio.ServerInterceptor],
) -> tuple[grpc.aio.Server, tuple[str, int]]:
    """A server on `port` of `host` that does not serve yet, and the address at which outside
    clients reach it: that port of `advertised`. Raises SettingsError if it cannot listen on the
    address."""
    server = new_server(settings, [FromOutside(), *interceptors])
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise SettingsError(
            f"setting external_port = {port}: cannot listen on {host}:{port} (set STRANDLINE_EXTERNAL_PORT)"
        ) from error
    return server, (advertised, bound)


def endpoint_to_wire(endpoint: Endpoint) -> common_pb2.Endpoint:
    """The endpoint, with the address at which the current caller reaches it."""
    host, port = address_for_caller(endpoint.host, endpoint.port, endpoint.external)
    return common_pb2.Endpoint(id=endpoint.id, host=host, port=port, rack=endpoint.rack)


def address_for_caller(host: str, port: int, external: tuple[str, int] | None) -> tuple[str, int]:
    """The address of a broker or controller for the current caller. One without an external address
    has the same for all."""
    return external if external is not None and _from_outside.get() else (host, port)
