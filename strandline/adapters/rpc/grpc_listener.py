"""Serves calls over gRPC: one server for each address that a broker or a controller listens on.

Messages pass gRPC as bytes. They are decoded here, so that bytes which are no request get a typed answer, and
a handler needs nothing of gRPC.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from strandline.adapters.asked_for import claimed
from strandline.adapters.client_ids import shown_client_id
from strandline.adapters.rpc.logins.bearer import shown_session
from strandline.adapters.rpc.member_key import shown_key
from strandline.adapters.rpc.served_stream import begin, write
from strandline.adapters.rpc.server.grpc_server import new_grpc_server
from strandline.adapters.rpc.server.held_calls import HeldCalls, host_of
from strandline.adapters.rpc.server.parsing_interceptor import ParsingInterceptor, only_request
from strandline.adapters.rpc.serving import (
    OnAnswered,
    OnRefused,
    check_rows,
    refusal,
    serve_call,
    serve_stream,
)
from strandline.adapters.rpc.wire_errors import abort
from strandline.adapters.system.descriptors import connection_options
from strandline.adapters.tls.grpc_credentials import add_port
from strandline.adapters.tls.reloaded import ReloadedPem
from strandline.adapters.tls.subject import CertificatePrincipals
from strandline.config.limits import MESSAGE_BYTES_MAX
from strandline.config.security import ENCRYPTED, SASL_PLAINTEXT
from strandline.config.services.listener import ListenerSettings
from strandline.errors import SettingsError, StrandlineError
from strandline.host import CallerLogins
from strandline.ports import Caller, Clock, Listener, Rpc, Served, ServedCall, ServedStream
from strandline.security.calls import RPCS
from strandline.security.rows import Decided
from strandline.vocabulary.metadata import Endpoint

logger = structlog.get_logger(__name__)

NO_PEMS: Final[Mapping[str, ReloadedPem | None]] = {}
_SETTINGS: Final = {Listener.INTERNAL: "port", Listener.EXTERNAL: "external_port"}
"""The settings that name the ports."""
CERTIFICATE: Final = "x509_pem_cert"
"""What gRPC calls the peer's certificate, in PEM."""

Context = grpc.aio.ServicerContext[bytes, bytes]


class GrpcListener:
    """All gRPC servers of one process. Nothing is served before `start`."""

    def __init__(
        self,
        settings: ListenerSettings,
        services: Sequence[str],
        clock: Clock,
        on_answered: OnAnswered,
        on_refused: OnRefused,
        pems: Mapping[str, ReloadedPem | None] = NO_PEMS,
    ) -> None:
        """The health service answers for the process and for each of these services; all fare alike. See
        `strandline.host.Listen` for the two functions. `pems` has the certificates by protocol.

        Raises SettingsError if `ssl_principal_mapping_rules` cannot be read."""
        self.serving = False
        self._settings = settings
        self._pems = pems
        self._principals = CertificatePrincipals(settings.ssl_principal_mapping_rules)
        self._clock = clock
        self._on_answered = on_answered
        self._on_refused = on_refused
        self._held = HeldCalls(settings.client_calls_max)
        self._servers: dict[Listener, grpc.aio.Server] = {}
        self._health = health.aio.HealthServicer()
        self._health_names = ("", *services)

    def bind(self, member: int, rack: str = "") -> Endpoint:
        """Listen, and say where others reach this member. Raises SettingsError."""
        settings = self._settings
        port = self._listen(Listener.INTERNAL, settings.port)
        advertised = settings.advertised_host or settings.host
        encrypted = settings.security_protocol in ENCRYPTED
        endpoint = Endpoint(member, advertised, settings.advertised_port or port, rack, encrypted=encrypted)
        self._check_name("port", "advertised_host" if settings.advertised_host else "host", advertised)
        if settings.external_port is None:
            return endpoint
        self._check_name("external_port", "external_host", settings.external_host)
        port = self._listen(Listener.EXTERNAL, settings.external_port)
        return replace(endpoint, external=(settings.external_host, port))

    def _check_name(self, port: str, setting: str, host: str) -> None:
        pem = self._pems.get(self._settings.protocol_of(port))
        if pem is not None:
            pem.warn_unless_named(setting, host)

    def _listen(self, listener: Listener, port: int) -> int:
        setting = _SETTINGS[listener]
        server = new_server(self._settings, self._on_refused, self._held)
        address = f"{self._settings.host}:{port}"
        protocol = self._settings.protocol_of(setting)
        if protocol == SASL_PLAINTEXT:
            logger.warning("logins without encryption hide passwords and protect nothing else", port=setting)
            if listener is Listener.INTERNAL:
                logger.warning(
                    "members of the cluster send their key to this port in plaintext", port=setting
                )
        try:
            bound = add_port(server, address, self._pems.get(protocol))
        except RuntimeError as error:
            raise SettingsError(
                f"setting {setting} = {port}: cannot listen on {address} "
                f"(set STRANDLINE_HOST or STRANDLINE_{setting.upper()})"
            ) from error
        self._servers[listener] = server
        return bound

    async def start(
        self,
        served: Sequence[Served],
        *,
        internal: Sequence[Served] = (),
        logins: CallerLogins | None = None,
    ) -> None:
        """Serve these calls; those of `internal` to the members of the cluster only."""
        check_rows([*served, *internal])
        await self.set_health(serving=False)
        for listener, server in self._servers.items():
            has_logins = self._settings.has_logins(_SETTINGS[listener])
            assert logins is not None or not has_logins, "a port with logins needs them"
            add_calls(
                server,
                [*served, *internal] if listener is Listener.INTERNAL else served,
                listener,
                self._clock,
                self._on_answered,
                self._on_refused,
                self._principals,
                logins if has_logins else None,
                self._held,
            )
            health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
            await server.start()

    async def set_health(self, *, serving: bool) -> None:
        self.serving = serving
        status = health_pb2.HealthCheckResponse
        for name in self._health_names:
            await self._health.set(name, status.SERVING if serving else status.NOT_SERVING)

    async def stop(self, grace_s: float | None = None) -> None:
        """Takes no more calls; those under way have this time to end, and are then cancelled."""
        async with asyncio.TaskGroup() as stopping:
            for server in self._servers.values():
                stopping.create_task(server.stop(grace_s))


def new_server(
    settings: ListenerSettings, on_refused: OnRefused, held: HeldCalls | None = None
) -> grpc.aio.Server:
    """A server without a port, with the bounds that all brokers and controllers set their clients. `held` as
    in `add_calls`."""
    options = (
        *connection_options(1 if settings.external_port is None else 2),
        ("grpc.so_reuseport", 0),  # a second process on this port has to fail
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", -1),
        # Peers ping to find out that a hung member hangs; gRPC's defaults would drop them for it.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 500),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.server_handshake_timeout_ms", settings.handshake_timeout_ms),
        ("grpc.max_concurrent_streams", settings.connection_calls_max),
        # gRPC would count calls until it has forgotten them, a little after their answers, and reset others
        # meanwhile: their clients could not know whether they had an effect.
        ("grpc.http.overload_protection", 0),
        # Calls that wait for the event loop to take them: gRPC would reset them at random from a thousand on,
        # and their clients could not know whether they had an effect. `calls_max` bounds what is taken.
        ("grpc.server.max_pending_requests", settings.calls_max),
        ("grpc.server.max_pending_requests_hard_limit", settings.calls_max),
        # gRPC may refuse headers from the first bound on, at random, and does from the second.
        ("grpc.max_metadata_size", settings.call_headers_bytes_max),
        ("grpc.absolute_max_metadata_size", settings.call_headers_bytes_max),
    )
    return new_grpc_server(
        options=options,
        interceptors=[ParsingInterceptor(on_refused, held or HeldCalls(sys.maxsize))],
        maximum_concurrent_rpcs=settings.calls_max,
    )


def add_calls(
    server: grpc.aio.Server,
    served: Sequence[Served],
    listener: Listener,
    clock: Clock,
    on_answered: OnAnswered,
    on_refused: OnRefused,
    principals: CertificatePrincipals | None = None,
    logins: CallerLogins | None = None,
    held: HeldCalls | None = None,
) -> None:
    """Serve these calls on one server, which listens at the given kind of address. `principals` of callers
    with certificates; None: their subjects as they are. `logins` None: no caller has to log in. `held` None:
    an address may have as many calls open as all of them."""
    services: defaultdict[str, dict[str, grpc.RpcMethodHandler[bytes, bytes]]] = defaultdict(dict)
    held = held or HeldCalls(sys.maxsize)
    calls = _Calls(listener, clock, on_refused, principals or CertificatePrincipals(""), logins, held)
    for each in [*served, *(() if logins is None else logins.calls)]:
        _, service, name = each.rpc.path.split("/")
        handler: grpc.RpcMethodHandler[bytes, bytes]
        if isinstance(each, ServedCall):
            # As a stream of requests: a unary handler begins once the request is there, so a call without one
            # would be counted for no address.
            handler = grpc.stream_unary_rpc_method_handler(calls.unary(each, on_answered))
        else:
            handler = grpc.stream_stream_rpc_method_handler(calls.stream(each))
        services[service][name] = handler
    for service, handlers in services.items():
        server.add_registered_method_handlers(service, handlers)


class _Calls:
    """The calls to one server."""

    def __init__(
        self,
        listener: Listener,
        clock: Clock,
        on_refused: OnRefused,
        principals: CertificatePrincipals,
        logins: CallerLogins | None,
        held: HeldCalls,
    ) -> None:
        self._listener = listener
        self._held = held
        self._monotonic = clock.monotonic
        self._on_refused = on_refused
        self._principals = principals
        self._logins = logins

    def unary(
        self, served: ServedCall[Any, Any], on_answered: OnAnswered
    ) -> Callable[[object, Context], Awaitable[bytes]]:
        async def serve(_: object, context: Context) -> bytes:
            try:
                host = host_of(context.peer())
                with self._held.one(host):
                    caller = self._caller(served.rpc.path, context, host)
                    data = await only_request(context, served.rpc.path)
                    return await serve_call(served, data, caller, self._monotonic, on_answered)
            except StrandlineError as error:
                refused = error
            return await self._refuse(served.rpc, context, refused)

        return serve

    def stream(
        self, served: ServedStream[Any, Any]
    ) -> Callable[[AsyncIterator[bytes], Context], Awaitable[None]]:
        async def serve(requests: AsyncIterator[bytes], context: Context) -> None:
            try:
                host = host_of(context.peer())
                with self._held.one(host):
                    caller = self._caller(served.rpc.path, context, host)
                    await begin(context)
                    await serve_stream(served, requests, partial(write, context), caller, self._monotonic)
                return
            except StrandlineError as error:
                refused = error
            await write(context, await self._refuse(served.rpc, context, refused))

        return serve

    def _caller(self, path: str, context: Context, host: str) -> Caller:
        """Raises AuthenticationFailed for a certificate that gives no principal, and as `CallerLogins.admit`
        unless any caller may make the call."""
        metadata = context.invocation_metadata()
        key = shown_key(metadata)
        caller = Caller(
            context.peer(),
            host,
            self._listener,
            key,
            asks_for=None if key is None else claimed(metadata),
            client_id=shown_client_id(metadata),
        )
        if self._logins is not None:
            if RPCS[path].decided is Decided.NOWHERE:
                return caller
            return self._logins.admit(caller, shown_session(metadata))
        certificate = next(iter(context.auth_context().get(CERTIFICATE, ())), None)
        return caller if certificate is None else self._principals.named(caller, certificate)

    async def _refuse(self, rpc: Rpc[Any, Any], context: Context, error: StrandlineError) -> bytes:
        """The answer that carries the error; ends the call if there is no such answer."""
        self._on_refused(error, context.peer())
        carries = refusal(rpc, error, self._listener)
        return carries if carries is not None else await abort(context, error, self._listener)
