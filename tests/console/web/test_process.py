"""The console as a process: what a network can do to it, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from strandline.errors import SettingsError
from strandline.local.cluster import LocalCluster
from strandline.local.console_process import ConsoleProcess
from strandline.local.layout import Layout, MemberFile
from strandline.local.process import Process
from strandline.testing import MemoryCluster
from tests.conftest import ClusterFactory
from tests.console.web.consoles import served
from tests.tls_files import TestAuthority
from tests.waiting import eventually

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LAST_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
END_S_MAX = 30.0
READ_S_MAX = 30.0


@asynccontextmanager
async def port_of(
    cluster: MemoryCluster, stop: asyncio.Event | None = None, **given: object
) -> AsyncIterator[int]:
    """The port of a console in this process, which ends once `stop` is set."""
    async with asyncio.timeout(END_S_MAX), served(cluster, stop, **given) as address:
        yield int(address.rpartition(":")[2])


@pytest.fixture(scope="module")
async def memory() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
async def processes(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=3)


async def answer(port: int, sent: bytes, context: ssl.SSLContext | None = None) -> bytes:
    """All that the console says on a connection until it closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(sent)
        async with asyncio.timeout(READ_S_MAX):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_a_request_that_never_ends_is_ended(memory: MemoryCluster) -> None:
    """Its head, or its body; and a connection on which nothing comes."""
    async with port_of(memory, request_ms_max=1_000, idle_ms_max=1_000) as port:
        form = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\ncsrf="
        for sent in (b"", REQUEST[:20], form):
            assert b" 200 " not in await answer(port, sent)
        assert b" 200 " in await answer(port, REQUEST)  # closed after `idle_ms_max`


async def test_an_address_has_a_bounded_number_of_connections(memory: MemoryCluster) -> None:
    async with port_of(memory, client_connections_max=8) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        assert await answer(port, REQUEST) == b""
        for _, writer in held:
            writer.close()
            await writer.wait_closed()

        async def is_served() -> bool:
            return b" 200 " in await answer(port, LAST_REQUEST)

        await eventually(is_served, what="there is room again")


async def test_garbage_gets_an_error_and_no_trace(memory: MemoryCluster) -> None:
    async with port_of(memory, idle_ms_max=1_000) as port:
        for sent in (b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/1.1\r\nX: " + b"a" * 400_000):
            assert b"Traceback" not in await answer(port, sent + b"\r\n\r\n")


def head(target: str, headers: int = 0, value: str = "v") -> bytes:
    further = "".join(f"X-{number}: {value}\r\n" for number in range(headers))
    return f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{further}\r\n".encode()


async def test_the_head_of_a_request_is_bounded(memory: MemoryCluster) -> None:
    """Its line, the number of its headers, and all of it, also where all of it comes at once."""
    async with port_of(memory) as port:
        assert b" 200 " in await answer(port, head("/healthz?" + "a" * 12_000, headers=50))
        for refused in (
            head("/healthz?" + "a" * 17_000),
            head("/healthz?" + "a" * 70_000),
            head("/" + "a/" * 35_000),
            head("/healthz", headers=5_000),
            head("/healthz", headers=150),
            head("/healthz", headers=80, value="v" * 800),
        ):
            said = await answer(port, refused)
            assert said.split(b" ", 2)[1] in (b"400", b"414", b"431"), said[:200]
            assert said.count(b"HTTP/1.1 ") == 1
        assert b" 200 " in await answer(port, LAST_REQUEST)


async def test_one_address_cannot_take_all_streams(memory: MemoryCluster) -> None:
    """Though it asks for all of them at once. What it gives back is there for it again."""
    async with port_of(memory) as port, AsyncExitStack() as opened:

        async def open_from(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
            opened.callback(writer.close)
            return reader, writer

        async def status(reader: asyncio.StreamReader) -> bytes:
            return (await reader.readline()).split()[1]

        streams = [await open_from("127.0.0.1") for _ in range(60)]
        for _, writer in streams:
            writer.write(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        statuses = [await status(reader) for reader, _ in streams]
        assert Counter(statuses) == {b"200": 16, b"503": 44}
        reader, writer = await open_from("127.0.0.2")
        writer.write(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert await status(reader) == b"200"
        streams[statuses.index(b"200")][1].close()

        async def is_served() -> bool:
            reader, writer = await open_from("127.0.0.1")
            writer.write(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            if (said := await status(reader)) != b"200":
                writer.close()
            return said == b"200"

        await eventually(is_served, what="there is room again")


async def test_pages_that_are_open_do_not_delay_the_end(
    memory: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The console ends their streams, and connections without a request are closed: no request uses up the
    second that those in progress have, after which the server cancels them and says so."""
    async with port_of(memory) as port:
        streams = []
        for path in ("/live", "/live", "/api/timeline/live"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            await reader.readuntil(b"data:")
            streams.append((reader, writer))
        idle, idle_writer = await asyncio.open_connection("127.0.0.1", port)
        idle_writer.write(REQUEST)
        await idle.readuntil(b"ok\n")
    for reader, writer in streams:
        assert (await reader.read()).endswith(b"\r\n0\r\n\r\n")
        writer.close()
    assert await idle.read() == b""
    idle_writer.close()
    assert [each.message for each in caplog.records if each.name.startswith("uvicorn")] == []


async def test_certificates_of_browsers_open_the_console(memory: MemoryCluster, tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    own, of_browser = authority.issue("console"), authority.issue("alice")
    stranger = TestAuthority(tmp_path / "other").issue("mallory")
    demanding = {**own.settings, "ssl_client_auth": "required"}
    async with port_of(memory, **demanding) as port:

        def context(shown: object) -> ssl.SSLContext:
            made = ssl.create_default_context(cafile=str(authority.cafile))
            if shown is not None:
                made.load_cert_chain(str(shown.certfile), str(shown.keyfile))  # type: ignore[attr-defined]
            return made

        assert b" 200 " in await answer(port, LAST_REQUEST, context(of_browser))
        for shown in (None, stranger):
            try:
                said = await answer(port, LAST_REQUEST, context(shown))
            except (ssl.SSLError, ConnectionError):
                said = b""
            assert b" 200 " not in said


async def test_a_console_that_is_to_end_serves_no_longer(memory: MemoryCluster, tmp_path: Path) -> None:
    """Though it listens for a moment more: a start that finds it waits for the next one."""
    stop = asyncio.Event()
    async with port_of(memory, stop) as port:
        console = ConsoleProcess(MemberFile(id=1, port=port), Layout(tmp_path), secure=False, detached=False)
        assert not await console.serves()
        console.process = this = Process("console", os.getpid(), os.pidfd_open(os.getpid()), tmp_path / "log")
        await console.wait_serving()
        stop.set()
        assert not await console.serves()
        this.release()


async def test_an_address_in_use_is_named(memory: MemoryCluster) -> None:
    async with port_of(memory) as port:
        with pytest.raises(BaseExceptionGroup) as raised:
            async with port_of(memory, listen=f"127.0.0.1:{port}"):
                pass
        assert raised.group_contains(SettingsError, match=f"listen = '127.0.0.1:{port}'", depth=None)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_command_serves_a_cluster_and_ends_with_open_pages(
    processes: LocalCluster, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "strandline", "console", "--listen", "127.0.0.1:0", "-o", "json"]
    process = await asyncio.create_subprocess_exec(
        *command,
        "--bootstrap",
        processes.bootstrap,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(END_S_MAX):
            address = json.loads(await process.stdout.readline())["address"]

            def page() -> str:
                with urllib.request.urlopen(address, timeout=10) as opened:
                    return str(opened.read().decode())

            async def shows_brokers() -> bool:
                return (await asyncio.to_thread(page)).count(">alive<") == 3

            await eventually(shows_brokers, what="the page shows three brokers")
            port = int(address.rpartition(":")[2].strip("/"))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await reader.readuntil(b"data:")
            process.send_signal(number)
            assert b"ended" in await process.stderr.read()
            assert await process.wait() == 0
            writer.close()
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
