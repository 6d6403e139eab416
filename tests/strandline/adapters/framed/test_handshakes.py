"""Connections of an encrypted port that are not encrypted yet: they are bounded from their arrival on."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from strandline.adapters.framed.client import open_framed
from strandline.adapters.rpc.refused_requests import TooManyConnections
from strandline.adapters.system.accepting.acceptor import Acceptor, Encryption
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.tls.reloaded import ReloadedPem
from strandline.errors import StrandlineError
from strandline.host import Arrival
from strandline.local.ports import LOOPBACK
from tests.strandline.adapters.framed.serving import serving
from tests.strandline.adapters.framed.test_port import KEY, TALK, TIMEOUT_S, Talking
from tests.tls_files import Files, TestAuthority
from tests.waiting import eventually

NEIGHBOUR = "127.0.0.2"
TURNS = 100
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.run, uvloop.run])
def run(request: pytest.FixtureRequest) -> Run:
    """Brokers run under uvloop."""
    return cast(Run, request.param)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return TestAuthority(tmp_path).issue("broker-1")


@dataclass(slots=True)
class Stranger:
    """A connection that says nothing."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def is_closed(self) -> bool:
        async with asyncio.timeout(TIMEOUT_S):
            return await self.reader.read() == b""

    async def is_answered(self) -> bool:
        """Whether the port begins a handshake with it."""
        hello, anybody = ssl.MemoryBIO(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with suppress(ssl.SSLWantReadError):
            anybody.wrap_bio(ssl.MemoryBIO(), hello, server_hostname=LOOPBACK).do_handshake()
        self.writer.write(hello.read())
        async with asyncio.timeout(TIMEOUT_S):
            return await self.reader.read(1) != b""


class Port:
    """An encrypted port, and those who connect to it."""

    def __init__(self, address: tuple[str, int], files: Files, refused: list[StrandlineError]) -> None:
        self.address = address
        self._client = ReloadedPem(files.client, SystemClock()).now().client
        self.refused = refused

    @asynccontextmanager
    async def stranger(self, source: str = LOOPBACK) -> AsyncIterator[Stranger]:
        reader, writer = await asyncio.open_connection(*self.address, local_addr=(source, 0))
        try:
            yield Stranger(reader, writer)
        finally:
            writer.transport.abort()

    async def serves(self) -> bool:
        """Whether a member's stream carries a message."""
        try:
            stream = await open_framed(*self.address, TALK, KEY, self._client, timeout_s=TIMEOUT_S)
        except StrandlineError:
            return False
        await stream.write(b"one")
        answer = await stream.read()
        await stream.finish()
        return answer == b"one"

    @property
    def limits(self) -> list[int | None]:
        assert all(isinstance(error, TooManyConnections) for error in self.refused)
        return [error.limit for error in self.refused]


@asynccontextmanager
async def encrypted(files: Files, **given: Any) -> AsyncIterator[Port]:
    refused: list[StrandlineError] = []
    async with serving(
        Talking().calls, on_refused=lambda error, _: refused.append(error), **files.settings, **given
    ) as endpoint:
        assert endpoint.replication is not None
        yield Port(endpoint.replication, files, refused)


def test_one_address_begins_no_more_handshakes_than_it_may_have_connections(run: Run, files: Files) -> None:
    """CORRECTNESS X6."""

    async def play() -> None:
        async with encrypted(files, client_calls_max=2) as port:
            async with port.stranger(), port.stranger():
                async with port.stranger() as third:
                    assert await third.is_closed()
                assert not await port.serves()
                assert port.limits == [2, 2]
                async with port.stranger(NEIGHBOUR) as neighbour:
                    assert await neighbour.is_answered()
                assert port.limits == [2, 2], "other addresses have a bound of their own"
            await eventually(port.serves, what="those that ended count no more")

    run(play())


def test_connections_that_arrive_at_once_count_one_by_one(run: Run, files: Files) -> None:
    """CORRECTNESS X6: none of them has begun its handshake when the next one is accepted."""

    async def play() -> None:
        async with encrypted(files, client_calls_max=2) as port:
            arrived = [socket.create_connection(port.address) for _ in range(10)]
            try:
                await eventually(lambda: port.limits == [2] * 8, what="all but two are refused")
            finally:
                for each in arrived:
                    each.close()

    run(play())


def test_all_addresses_together_have_a_bound(run: Run, files: Files) -> None:
    """CORRECTNESS X6."""

    async def play() -> None:
        async with encrypted(files, calls_max=10) as port, AsyncExitStack() as strangers:
            for _ in range(9):
                await strangers.enter_async_context(port.stranger(NEIGHBOUR))
            last = await strangers.enter_async_context(port.stranger())
            async with port.stranger() as refused:
                assert await refused.is_closed()
            assert port.limits == [10]
            last.writer.write(b"no TLS, and no HTTP either")
            assert await last.is_closed()
            await eventually(port.serves, what="a handshake that failed counts no more")

    run(play())


def test_a_handshake_that_takes_too_long_is_closed(run: Run, files: Files) -> None:
    async def play() -> None:
        async with encrypted(files, client_calls_max=1, handshake_timeout_ms=100) as port:
            async with port.stranger() as slow:
                assert await slow.is_closed()
            assert await port.serves()

    run(play())


class Counting(socket.socket):
    """Counts how often a connection was asked for."""

    def __init__(self) -> None:
        super().__init__(fileno=socket.create_server((LOOPBACK, 0)).detach())
        self.count = 0
        self.asked = asyncio.Event()

    def accept(self) -> tuple[socket.socket, Any]:
        self.count += 1
        self.asked.set()
        return super().accept()


def test_a_process_without_descriptors_pauses_and_accepts_again(run: Run, files: Files) -> None:
    """Without the pause, a connection that waits would have its event loop ask in each turn."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certfile, files.keyfile)

    async def play() -> None:
        with Counting() as bound:
            async with asyncio.TaskGroup() as tasks:
                accepting = Acceptor(
                    bound,
                    Encryption(context, 0.1),
                    asyncio.BufferedProtocol,
                    tasks,
                    lambda _: Arrival(nullcontext()),
                )
                with socket.create_connection(bound.getsockname()) as waiting:
                    waiting.settimeout(TIMEOUT_S)
                    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
                    try:
                        await bound.asked.wait()
                        for _ in range(TURNS):
                            await asyncio.sleep(0)
                    finally:
                        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                    assert bound.count < TURNS / 2
                    assert await asyncio.to_thread(waiting.recv, 1) == b"", "it is accepted, and says nothing"
                accepting.close()

    run(play())
