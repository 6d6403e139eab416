"""This machine as a `ServiceHost`: gRPC, ZooKeeper and signals for a broker or a controller."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from typing import NoReturn

import structlog

from strandline.adapters.framed.client import open_framed
from strandline.adapters.rpc.blocking import GrpcBlockingTransport
from strandline.adapters.rpc.grpc_listener import GrpcListener
from strandline.adapters.rpc.probe import probe
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.system.accepting.acceptor import Encryption
from strandline.adapters.system.accepting.byte_server import ByteServer, listen_bytes
from strandline.adapters.system.fail_fast import FailFast
from strandline.adapters.system_host import system_host
from strandline.adapters.tls.peers import MixedMembers, PemOf, to_every_address
from strandline.adapters.tls.reloaded import ReloadedPem
from strandline.adapters.tls.server_context import NewestContext
from strandline.adapters.zookeeper.connect import connect
from strandline.config.security import SASL_SSL, SSL
from strandline.config.services.listener import ListenerSettings
from strandline.errors import SettingsError, StrandlineError
from strandline.host import MemberStreams, ProbeResult, ServiceHost
from strandline.ports import Clock, Method, Request, Response, Stream
from strandline.vocabulary.metadata import Endpoint

logger = structlog.get_logger(__name__)


def service_host(settings: ListenerSettings | None = None) -> ServiceHost:
    """The host of a service with these settings; None: its connections are in plaintext.

    Raises SettingsError for certificates or a key that cannot be used, for ports that are open to
    strangers, and for a key of the cluster that the network could read.
    """
    if settings is not None:
        _check_exposure(settings)
    machine = system_host()
    pem = None
    if settings is not None and (SSL in settings.protocols() or settings.mixed_security_protocols):
        demands = settings.ssl_client_auth == "required"
        pem = ReloadedPem(settings, machine.clock, demands_certificates=demands)
    login_pem = None
    if settings is not None and SASL_SSL in settings.protocols():  # a password takes a certificate's place
        login_pem = ReloadedPem(settings, machine.clock, demands_certificates=False)
    pem_of = {SSL: pem, SASL_SSL: login_pem}
    metrics_pem = None if settings is None else _metrics_pem(settings, machine.clock)
    own_pem = None if settings is None else pem_of.get(settings.security_protocol)
    mixed = None
    if settings is not None and settings.mixed_security_protocols and pem is not None:
        logger.warning("other members may be spoken to in plaintext", setting="mixed_security_protocols")
        mixed = MixedMembers(pem, encrypted_by_default=own_pem is not None)
    pem_of_member = to_every_address(own_pem) if mixed is None else mixed.pem_of

    def listen(
        settings: ListenerSettings,
        services: Sequence[str],
        *,
        on_answered: Callable[[str, float], None],
        on_refused: Callable[[StrandlineError, str], None],
    ) -> GrpcListener:
        return GrpcListener(settings, services, machine.clock, on_answered, on_refused, pem_of)

    async def probed(endpoint: Endpoint, timeout_s: float) -> ProbeResult:
        member = pem_of_member(endpoint.address)
        context = None if member is None else member.now().client
        return await probe(endpoint, timeout_s, machine.clock, context)

    def listen_to_bytes(setting: str, host: str, port: int) -> ByteServer:
        chosen = None if settings is None else pem_of.get(settings.protocol_of(setting))
        if settings is None or chosen is None:
            return listen_bytes(setting, host, port)
        encryption = Encryption(NewestContext(chosen), settings.handshake_timeout_ms / 1000)
        return listen_bytes(setting, host, port, encryption)

    return ServiceHost(
        clock=machine.clock,
        files=machine.files,
        threads=machine.threads,
        new_id=machine.new_id,
        random=machine.random,
        transport=lambda key: GrpcTransport(key, pem_of_member, refused_is_fatal=False),
        blocking_transport=lambda: GrpcBlockingTransport(pem_of_member),
        listen=listen,
        connect_coordination=connect,
        probe=probed,
        stop_requested=asyncio.Event(),
        fail_fast=FailFast,
        die=kill_this_process,
        listen_bytes=listen_to_bytes,
        member_streams=_member_streams(pem_of_member),
        heard_of=mixed.heard_of if mixed is not None else _ignore,
        metrics_tls=None if metrics_pem is None else NewestContext(metrics_pem),
        certificates=pem or login_pem or metrics_pem,
    )


def _member_streams(pem_of_member: PemOf) -> MemberStreams:
    async def opened(
        member: Endpoint, method: Method[Request, Response], key: bytes | None, *, timeout_s: float
    ) -> Stream[Request, Response]:
        assert member.replication is not None, f"broker {member.id} has no port for it"
        pem = pem_of_member(member.address)
        context = None if pem is None else pem.now().client
        address = member.replication
        return await open_framed(*address, method, key, context, member=int(member.id), timeout_s=timeout_s)

    return opened


def _check_exposure(settings: ListenerSettings) -> None:
    """Raises SettingsError."""
    if ports := settings.open_ports():
        who = f"anyone who reaches {' or '.join(ports)}"
    elif settings.exposes_key:
        who = (
            f"members send their key to port unencrypted (security_protocol = {settings.security_protocol}), "
            "and anyone on the network who has it"
        )
    else:
        return
    raise SettingsError(
        f"setting host = {settings.host!r}: {who} could read, write and delete everything. "
        "Set security_protocol = SSL or SASL_SSL, or say allow_insecure = true (STRANDLINE_ALLOW_INSECURE)"
    )


def _ignore(_: Endpoint) -> None:
    """All members have one protocol."""


def _metrics_pem(settings: ListenerSettings, clock: Clock) -> ReloadedPem | None:
    """Raises SettingsError."""
    if settings.metrics_port is None or not settings.metrics_ssl:
        return None
    return ReloadedPem(settings, clock, demands_certificates=settings.metrics_demand_certificates)


def stop_on_signals(stop: asyncio.Event) -> None:
    """From now on SIGTERM and SIGINT set `stop` of the service on this event loop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


def kill_this_process() -> NoReturn:
    while True:
        os.kill(os.getpid(), signal.SIGKILL)
