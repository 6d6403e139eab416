"""A server of calls, and callers that name what no client names (docs/correctness.md, X14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from strandline.adapters.rpc.grpc_listener import new_server
from strandline.adapters.rpc.server.grpc_server import HAS_HOOKS
from strandline.config.services.controller import ControllerSettings

CALL_S_MAX = 10.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
END_HEADERS, END_STREAM = 4, 1
CHECK = b"/grpc.health.v1.Health/Check"
STRANGE = (b"/strandli\x80e.v1.Log/Fetch", b"\xff\xfe", b"/a/b\xc3", b"/" + b"\x80" * 200)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def literal(name: bytes, value: bytes) -> bytes:
    """A header that changes no table (RFC 7541, section 6.2.2)."""
    return b"\0" + b"".join(_string(each) for each in (name, value))


def _string(text: bytes) -> bytes:
    if len(text) < 127:
        return bytes([len(text)]) + text
    return bytes([127, (len(text) - 127) % 128 | 0x80, (len(text) - 127) // 128]) + text


def call(stream: int, path: bytes) -> bytes:
    """A whole call with an empty message."""
    names = {
        b":method": b"POST", b":scheme": b"http", b":path": path, b":authority": b"x",
        b"te": b"trailers", b"content-type": b"application/grpc",
    }  # fmt: skip
    head = b"".join(literal(name, value) for name, value in names.items())
    return frame(HEADERS, END_HEADERS, stream, head) + frame(DATA, END_STREAM, stream, bytes(5))


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[int]:
    """The port of a server with the health service."""
    server = new_server(ControllerSettings(**settings), lambda error, peer: None)
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    found = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield found
    await server.stop(None)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with serving() as found:
        yield found


async def test_a_name_that_is_no_text_ends_no_server(port: int) -> None:
    """CORRECTNESS X14: its call is answered, and so are the next ones of this connection and of others."""
    assert HAS_HOOKS, (
        f"grpcio {grpc.__version__} has another server: adapt `_AcceptingServer` in grpc_server.py to it and "
        "raise the floor in pyproject.toml, or set a bound below this version there"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(PREFACE + frame(SETTINGS, 0, 0, b""))
    for number, path in enumerate((*STRANGE, CHECK)):
        writer.write(call(2 * number + 1, path))
    ended: set[int] = set()
    async with asyncio.timeout(CALL_S_MAX):
        while len(ended) <= len(STRANGE):
            head = await reader.readexactly(9)
            payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            assert kind != GOAWAY, payload
            if kind == HEADERS and flags & END_STREAM:
                ended.add(stream)
    writer.transport.abort()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(), timeout=CALL_S_MAX
        )
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            later: Any = channel.unary_unary("/of.a.later.Version/Call")
            await later(b"", timeout=CALL_S_MAX)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_calls_that_arrive_at_once_are_all_answered(port: int) -> None:
    """gRPC resets calls at random while a thousand wait to be taken, and all beyond three thousand: a client
    could not know whether they had an effect. Such a burst is a large group whose members join again."""
    calls = ControllerSettings().connection_calls_max
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
    for _, writer in connections:
        every = b"".join(call(2 * number + 1, CHECK) for number in range(calls))
        writer.write(PREFACE + frame(SETTINGS, 0, 0, b"") + every)
    answered = reset = 0
    async with asyncio.timeout(6 * CALL_S_MAX):
        for reader, writer in connections:
            ended = 0
            while ended < calls:
                head = await reader.readexactly(9)
                await reader.readexactly(int.from_bytes(head[:3], "big"))
                kind, flags = head[3], head[4]
                answered += kind == HEADERS and bool(flags & END_STREAM)
                reset += kind == RST_STREAM
                ended += kind == RST_STREAM or (kind == HEADERS and bool(flags & END_STREAM))
            writer.transport.abort()
    assert (answered, reset) == (4 * calls, 0)


async def test_calls_beyond_the_bound_of_a_connection_wait_at_the_client() -> None:
    """gRPC counts a call until the server has forgotten it, a little after its answer, and would reset
    another one meanwhile: its client could not know whether it had an effect."""
    answered = 0

    async def repeat(stub: health_pb2_grpc.HealthStub) -> None:
        nonlocal answered
        for _ in range(50):
            await stub.Check(health_pb2.HealthCheckRequest(), timeout=CALL_S_MAX)
            answered += 1

    async with (
        serving(connection_calls_max=8) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        asyncio.TaskGroup() as tasks,
    ):
        stub = health_pb2_grpc.HealthStub(channel)
        for _ in range(16):
            tasks.create_task(repeat(stub))
    assert answered == 16 * 50


async def test_a_caller_that_resets_its_calls_holds_up_nobody(port: int) -> None:
    """It may be far beyond the bound of a connection by that."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(PREFACE + frame(SETTINGS, 0, 0, b""))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel, asyncio.timeout(6 * CALL_S_MAX):
        stub = health_pb2_grpc.HealthStub(channel)
        for first in range(0, 20_000, 500):
            for number in range(2 * first + 1, 2 * (first + 500), 2):
                writer.write(call(number, CHECK) + frame(RST_STREAM, 0, number, bytes(4)))
            await writer.drain()
            await stub.Check(health_pb2.HealthCheckRequest(), timeout=CALL_S_MAX)
        assert not reader.at_eof()
    writer.transport.abort()
