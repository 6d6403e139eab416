"""A client says why a server refuses it, or why it refuses a server (docs/correctness.md, X12)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import socket
import struct
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.system.accepting.acceptor import Encryption
from strandline.adapters.system.accepting.byte_server import listen_bytes
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system_host import client_host, system_host
from strandline.adapters.tls.channels import ANSWERED_LOOK_S_MAX, CONNECT_S_MAX
from strandline.adapters.tls.grpc_credentials import add_port
from strandline.adapters.tls.peers import to_every_address
from strandline.adapters.tls.refused_handshake import why_refused
from strandline.adapters.tls.reloaded import ReloadedPem
from strandline.adapters.tls.server_context import NewestContext
from strandline.cli.shell.clock import now
from strandline.config.client import ClientSettings
from strandline.errors import AuthenticationFailed, BrokerNotAvailable, SettingsError
from strandline.host import Arrival
from strandline.local.ports import LOOPBACK
from strandline.ports import Method
from tests.proxy import Proxy
from tests.tls_files import LONG_AGO, TOMORROW, YESTERDAY, Files, TestAuthority
from tests.waiting import eventually

ECHO: Method[str, str] = Method("/echo/Ask", str.encode, bytes.decode)
TIMEOUT_S = 10.0
REASON_S_MAX = 30.0
SAID_S_MAX = 2.0
"""How soon the reason is known, unless the machine is too busy."""

FAR_S = 0.12
"""One way to a server on the other side of the world."""

Serve = Callable[..., Coroutine[Any, Any, str]]


@pytest.fixture
def ours(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path / "ours")


@pytest.fixture
def theirs(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path / "theirs")


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a server; returns its address."""
    async with AsyncExitStack() as running:

        async def start(files: Files | None, *, demands: bool = True) -> str:
            pem = None
            if files is not None:
                pem = ReloadedPem(files.client, SystemClock(), demands_certificates=demands)
            return await started(running, pem)

        yield start


async def started(running: AsyncExitStack, pem: ReloadedPem | None) -> str:
    async def ask(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return request

    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(ask)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", {"Ask": handler}),))
    port = add_port(server, f"{LOOPBACK}:0", pem)
    await server.start()
    running.push_async_callback(server.stop, None)
    return f"{LOOPBACK}:{port}"


async def ask(settings: ClientSettings, address: str) -> str:
    transport = system_host(settings).transport(None)
    try:
        return await transport.call(address, ECHO, "hello", timeout_s=TIMEOUT_S)
    finally:
        await transport.close()


async def refused(settings: ClientSettings, address: str, why: str) -> None:
    """The client hears why, for good. It tries again while no reason is known yet, which may take longer than
    an error waits on a busy machine."""
    transport = system_host(settings).transport(None)

    async def said() -> AuthenticationFailed | None:
        try:
            await transport.call(address, ECHO, "hello", timeout_s=TIMEOUT_S)
        except AuthenticationFailed as error:
            return error
        except BrokerNotAvailable as error:
            assert error.message == f"{address} is unreachable from here"
        return None

    try:
        failed = await eventually(said, deadline_s=REASON_S_MAX, what=f"{address} refuses")
    finally:
        await transport.close()
    assert failed is not None and not failed.retriable
    assert re.search(f"{re.escape(address)}: .*{why}", failed.message)


def test_a_reason_is_known_in_two_seconds() -> None:
    """CORRECTNESS X12: those are the limits for an attempt and for the look at the port after it."""
    assert CONNECT_S_MAX + ANSWERED_LOOK_S_MAX <= SAID_S_MAX


PLAIN = ClientSettings()


async def test_what_fits_works(ours: TestAuthority, serve: Serve) -> None:
    """CORRECTNESS X12."""
    server = ours.issue("broker-1")
    without = ClientSettings(security_protocol="SSL", ssl_cafile=ours.cafile)
    assert await ask(ours.issue().client, await serve(server)) == "hello"
    assert await ask(without, await serve(server, demands=False)) == "hello"
    assert await ask(ours.issue().client, await serve(server, demands=False)) == "hello"
    assert await ask(PLAIN, await serve(None)) == "hello"


async def test_a_handshake_over_a_long_way_comes_to_its_end(ours: TestAuthority, serve: Serve) -> None:
    """CORRECTNESS X12: with an attempt that ended too early, no later one would be longer."""
    address = await serve(ours.issue("broker-1"))
    async with Proxy(int(address.rpartition(":")[2]), delay_s=FAR_S) as proxy:
        transport = system_host(ours.issue().client).transport(None)

        async def answered() -> bool:
            with contextlib.suppress(BrokerNotAvailable):
                return await transport.call(proxy.address, ECHO, "hello", timeout_s=TIMEOUT_S) == "hello"
            return False

        try:
            await eventually(answered, deadline_s=REASON_S_MAX)
        finally:
            await transport.close()


async def test_a_plaintext_client_of_a_port_with_tls(ours: TestAuthority, serve: Serve) -> None:
    """CORRECTNESS X12."""
    server = ours.issue("broker-1")
    for demands in (True, False):
        await refused(PLAIN, await serve(server, demands=demands), "this port speaks TLS")


async def test_a_client_with_tls_of_a_plaintext_port(ours: TestAuthority, serve: Serve) -> None:
    """CORRECTNESS X12."""
    await refused(ours.issue().client, await serve(None), "this port speaks plaintext")


async def test_a_client_of_a_port_for_kafka_clients(ours: TestAuthority) -> None:
    """CORRECTNESS X12."""
    pem = ReloadedPem(ours.issue("broker-1").client, SystemClock(), demands_certificates=True)
    server = listen_bytes("kafka_port", LOOPBACK, 0, Encryption(NewestContext(pem), SAID_S_MAX))
    async with asyncio.TaskGroup() as tasks:
        await server.serve(asyncio.BufferedProtocol, tasks, lambda _: Arrival(contextlib.nullcontext()))
        try:
            await refused(ours.issue().client, f"{LOOPBACK}:{server.port}", "not gRPC")
        finally:
            server.close()


async def test_a_server_of_an_unknown_authority(
    ours: TestAuthority, theirs: TestAuthority, serve: Serve
) -> None:
    """CORRECTNESS X12."""
    await refused(ours.issue().client, await serve(theirs.issue("broker-1")), "unable to get local issuer")


async def test_a_server_with_another_name(ours: TestAuthority, serve: Serve) -> None:
    """CORRECTNESS X12."""
    address = await serve(ours.issue("broker-1", "broker-1.example"))
    await refused(ours.issue().client, address, "certificate is not valid for '127.0.0.1'")


@pytest.mark.parametrize(
    ("not_before", "not_after", "why"),
    [(LONG_AGO, YESTERDAY, "certificate has expired"), (TOMORROW, None, "certificate is not yet valid")],
)
async def test_a_server_whose_certificate_is_outside_its_time(
    ours: TestAuthority, not_before: Any, not_after: Any, why: str
) -> None:
    """CORRECTNESS X12. A broker refuses to begin with such a certificate, but it may expire while it runs."""
    late = ours.issue("late", not_before=not_before, not_after=not_after)
    pair = late.keyfile.read_bytes(), late.certfile.read_bytes()
    server = grpc.aio.server()
    port = server.add_secure_port(f"{LOOPBACK}:0", grpc.ssl_server_credentials([pair]))
    await server.start()
    try:
        await refused(ours.issue().client, f"{LOOPBACK}:{port}", why)
    finally:
        await server.stop(None)


async def test_a_client_whose_certificate_expires_while_it_runs(ours: TestAuthority, serve: Serve) -> None:
    """CORRECTNESS X12."""
    address = await serve(ours.issue("broker-1"))
    soon = ours.issue("alice", not_after=now(UTC) + timedelta(seconds=2))
    pem = ReloadedPem(soon.client, SystemClock())
    await eventually(lambda: pem.complaint() is not None, deadline_s=TIMEOUT_S)
    transport = GrpcTransport(pem_of=to_every_address(pem))
    with pytest.raises(AuthenticationFailed, match=r"refuses this client's certificate: .*has expired"):
        await transport.call(address, ECHO, "hello", timeout_s=TIMEOUT_S)
    await transport.close()


async def test_a_client_without_a_certificate(ours: TestAuthority, serve: Serve) -> None:
    """CORRECTNESS X12."""
    without = ClientSettings(security_protocol="SSL", ssl_cafile=ours.cafile)
    await refused(without, await serve(ours.issue("broker-1")), "demands a certificate: set ssl_certfile")


async def test_a_client_with_a_foreign_certificate(
    ours: TestAuthority, theirs: TestAuthority, serve: Serve
) -> None:
    """CORRECTNESS X12."""
    foreign = theirs.issue("eve", trusts=ours.cafile)
    await refused(foreign.client, await serve(ours.issue("broker-1")), "its authority is unknown there")


async def test_a_member_of_the_cluster_tries_again(ours: TestAuthority, serve: Serve) -> None:
    """CORRECTNESS X12: the certificate of the other may be replaced while it runs."""
    address = await serve(None)
    transport = GrpcTransport(
        pem_of=to_every_address(ReloadedPem(ours.issue().client, SystemClock())), refused_is_fatal=False
    )
    with pytest.raises(BrokerNotAvailable, match="this port speaks plaintext"):
        await transport.call(address, ECHO, "hello", timeout_s=TIMEOUT_S)
    await transport.close()


async def test_a_port_that_refuses_or_is_silent_gives_no_reason(ours: TestAuthority) -> None:
    """CORRECTNESS X12: a broker that is down, or hangs, is none that refuses its clients."""
    with socket.create_server((LOOPBACK, 0)) as silent:
        address = f"{LOOPBACK}:{silent.getsockname()[1]}"
        for settings in (ours.issue().client, PLAIN):
            with pytest.raises(BrokerNotAvailable, match="unreachable"):
                await ask(settings, address)
    for settings in (ours.issue().client, PLAIN):
        with pytest.raises(BrokerNotAvailable, match="unreachable"):
            await ask(settings, address)


def test_settings_that_a_given_host_would_ignore_are_refused(ours: TestAuthority) -> None:
    with pytest.raises(SettingsError, match="setting security_protocol"):
        client_host(ours.issue().client, system_host())


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Threads interrupt each other between any two steps."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("busy_threads")
@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_port_that_resets_leaves_no_connection_open(ours: TestAuthority, encrypted: bool) -> None:
    """X12: a broker that is killed resets connections before their handshake."""
    pem = ReloadedPem(ours.issue().client, SystemClock()) if encrypted else None
    with socket.create_server((LOOPBACK, 0)) as server:

        def reset_each() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    connection.close()

        thread = threading.Thread(target=reset_each)
        thread.start()
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for _ in range(300):
                assert why_refused(f"{LOOPBACK}:{server.getsockname()[1]}", pem) is None
            gc.collect()
        server.shutdown(socket.SHUT_RDWR)
        await asyncio.to_thread(thread.join)
    assert [str(each.message) for each in found] == []
