"""A peer that hangs up is no error, at any point of a call; a defect of a handler still is one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import cast

import grpc
import pytest

from strandline.adapters.rpc import served_stream
from tests.waiting import eventually

Context = grpc.aio.ServicerContext[bytes, bytes]
Call = grpc.aio.StreamStreamCall[bytes, bytes]

ROUNDS = 50
LARGE = bytes(1 << 20)
"""More than a stream holds unread, so that its write is under way when the reader goes."""


class Broken:
    """The context of a stream to which nothing can be written, though the peer is there."""

    async def write(self, message: bytes) -> None:
        raise grpc.aio.InternalError("a write failed")


class Answering:
    """Serves `/answering/Talk`: answers each request with one large message, in a task of its own."""

    def __init__(self) -> None:
        self.ended = 0

    async def talk(self, requests: AsyncIterator[bytes], context: Context) -> None:
        writing = asyncio.Lock()

        async def answer(request: bytes) -> None:
            if request == b"defect":
                raise ZeroDivisionError("of the handler")
            if request == b"broken":
                await served_stream.write(cast(Context, Broken()), LARGE, hang_up_wait_s=0.0)
            async with writing:
                await served_stream.write(context, LARGE)

        try:
            async with asyncio.TaskGroup() as tasks:
                async for request in requests:
                    tasks.create_task(answer(request))
        finally:
            self.ended += 1


@pytest.fixture
async def answering() -> AsyncIterator[tuple[Answering, str]]:
    served = Answering()
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Talk": grpc.stream_stream_rpc_method_handler(served.talk)
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("answering", handlers),))
    await server.start()
    yield served, f"127.0.0.1:{port}"
    await server.stop(None)


async def hang_up(address: str, *, politely: bool) -> None:
    """Read one answer of several, and go: by a cancellation, or with the connection."""
    async with grpc.aio.insecure_channel(address) as channel:
        call: Call = channel.stream_stream("/answering/Talk")()
        for _ in range(4):
            await call.write(b"more")
        assert await call.read() == LARGE
        if politely:
            call.cancel()


async def test_a_peer_that_hangs_up_while_it_is_written_to_is_no_error(
    answering: tuple[Answering, str], caplog: pytest.LogCaptureFixture
) -> None:
    served, address = answering
    for number in range(ROUNDS):
        await hang_up(address, politely=number % 2 == 0)

    async def all_ended() -> bool:
        return served.ended == ROUNDS

    await eventually(all_ended)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def error_logged(address: str, request: bytes, caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    """What the one call that breaks leaves in the log."""
    async with grpc.aio.insecure_channel(address) as channel:
        call: Call = channel.stream_stream("/answering/Talk")()
        await call.write(request)
        with pytest.raises(grpc.aio.AioRpcError):
            await call.read()
    (logged,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "raised by servicer method [/answering/Talk]" in logged.getMessage()
    return logged


async def test_a_defect_of_a_handler_is_reported(
    answering: tuple[Answering, str], caplog: pytest.LogCaptureFixture
) -> None:
    logged = await error_logged(answering[1], b"defect", caplog)
    assert logged.exc_info is not None
    assert isinstance(logged.exc_info[1], ExceptionGroup)
    assert logged.exc_info[1].subgroup(ZeroDivisionError) is not None


async def test_a_failed_write_without_a_hang_up_is_reported(
    answering: tuple[Answering, str], caplog: pytest.LogCaptureFixture
) -> None:
    await error_logged(answering[1], b"broken", caplog)
