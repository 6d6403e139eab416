"""Probes of another broker's port, and their interpretation (docs/understand/replication.md, Election)."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import uvloop

from strandline.adapters.rpc.probe import probe
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.tls.grpc_credentials import add_port
from strandline.adapters.tls.pem import read_pem
from strandline.adapters.tls.reloaded import ReloadedPem
from strandline.config.client import ClientSettings
from strandline.host import ProbeResult
from strandline.ids import BrokerId
from strandline.local.ports import LOOPBACK
from strandline.vocabulary.metadata import Endpoint
from tests.tls_files import TestAuthority

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

SHORT_S = 0.2
LONG_S = 30.0


async def heard(port: int, timeout_s: float, context: ssl.SSLContext | None = None) -> ProbeResult:
    return await probe(Endpoint(BrokerId(1), LOOPBACK, port), timeout_s, SystemClock(), context)


@asynccontextmanager
async def listening(peer: Peer) -> AsyncIterator[int]:
    async with await asyncio.start_server(peer, LOOPBACK, 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        port: int = server.getsockname()[1]
    return port


async def test_a_grpc_server_sends_first() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    await server.start()
    try:
        assert await heard(port, LONG_S) is ProbeResult.ALIVE
    finally:
        await server.stop(None)


@pytest.mark.parametrize("demands_certificates", [True, False])
async def test_a_server_with_tls_answers_a_handshake(tmp_path: Path, demands_certificates: bool) -> None:
    """CORRECTNESS X12: it says nothing before the client does. A member that it refuses hears it too."""
    authority = TestAuthority(tmp_path / "ours")
    files = authority.issue("broker-1")
    pem = ReloadedPem(files.client, SystemClock(), demands_certificates=demands_certificates)
    server = grpc.aio.server()
    port = add_port(server, f"{LOOPBACK}:0", pem)
    await server.start()
    foreign = TestAuthority(tmp_path / "theirs").issue("broker-2")
    nameless = read_pem(ClientSettings(security_protocol="SSL", ssl_cafile=files.cafile))
    try:
        assert await heard(port, SHORT_S) is ProbeResult.NOTHING
        for shown in (pem.now(), read_pem(foreign.client), nameless):
            assert await heard(port, LONG_S, shown.client) is ProbeResult.ALIVE
    finally:
        await server.stop(None)


async def test_a_plaintext_server_answers_a_handshake_too(tmp_path: Path) -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    await server.start()
    context = read_pem(TestAuthority(tmp_path).issue().client).client
    try:
        assert await heard(port, LONG_S, context) is ProbeResult.ALIVE
    finally:
        await server.stop(None)


async def test_a_process_that_ends_or_hangs_answers_no_handshake(tmp_path: Path, closed_port: int) -> None:
    """CORRECTNESS X12: the kernel accepts connections for both."""
    context = read_pem(TestAuthority(tmp_path).issue().client).client
    assert await heard(closed_port, LONG_S, context) is ProbeResult.GONE
    with socket.create_server((LOOPBACK, 0)) as hanging:
        assert await heard(hanging.getsockname()[1], SHORT_S, context) is ProbeResult.NOTHING

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with listening(close) as port:
        assert await heard(port, SHORT_S, context) is ProbeResult.NOTHING


async def test_a_closed_port_says_that_the_process_is_gone(closed_port: int) -> None:
    assert await heard(closed_port, LONG_S) is ProbeResult.GONE


@pytest.mark.parametrize(
    "host", ["255.255.255.255", "nowhere.invalid"], ids=["no route for it", "no such name"]
)
async def test_a_local_failure_says_nothing_about_the_other_process(host: str) -> None:
    """CORRECTNESS E1: a broker without a network took every other one for dead, and their partitions. A cut
    may answer: no route, no neighbour, no ports, not permitted."""
    endpoint = Endpoint(BrokerId(1), host, 9)
    assert await probe(endpoint, LONG_S, SystemClock()) is ProbeResult.NOTHING


def test_without_descriptors_no_broker_counts_as_dead(closed_port: int) -> None:
    """Under uvloop, as brokers run: the error for a refused connection is the same."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def ask() -> tuple[ProbeResult, ProbeResult]:
        first = await heard(closed_port, LONG_S)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            return first, await heard(closed_port, LONG_S)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert uvloop.run(ask()) == (ProbeResult.GONE, ProbeResult.NOTHING)


def test_a_late_name_resolution_fails_without_an_unhandled_error() -> None:
    """uvloop, under which brokers run, leaves a look-up to itself whose caller has gone: a chaos round found
    its traceback in a broker's log."""
    unhandled: list[dict[str, Any]] = []
    loop = uvloop.new_event_loop()
    loop.set_exception_handler(lambda _, context: unhandled.append(context))
    nowhere = Endpoint(BrokerId(1), "nowhere.invalid", 1)

    async def look() -> None:
        assert await probe(nowhere, 0.0, SystemClock()) is ProbeResult.NOTHING
        with pytest.raises(OSError):
            await loop.getaddrinfo("nowhere.invalid", 1)

    try:
        loop.run_until_complete(look())
        gc.collect()
    finally:
        loop.close()
    assert unhandled == []


async def test_a_process_that_hangs_is_left_to_its_session() -> None:
    """The kernel accepts in its name."""
    with socket.create_server((LOOPBACK, 0)) as server:
        assert await heard(server.getsockname()[1], SHORT_S) is ProbeResult.NOTHING


async def test_a_process_that_is_being_killed_is_asked_until_its_port_is_closed() -> None:
    """Its connections may be closed before the port they came by. Being connected was taken for life, and its
    partitions waited for its session."""
    asked = 0
    closing = asyncio.Event()

    async def dies(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        writer.transport.abort()
        if asked == 3:
            closing.set()

    async with asyncio.TaskGroup() as tasks, listening(dies) as port:
        looking = tasks.create_task(heard(port, LONG_S))
        await closing.wait()
        assert not looking.done()
    assert await looking is ProbeResult.GONE
    assert asked >= 3


async def test_a_process_that_closes_every_connection_is_judged_by_its_session() -> None:
    """Something forwards to a process that may be gone or not."""

    async def forwards(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with listening(forwards) as port:
        assert await heard(port, SHORT_S) is ProbeResult.NOTHING
