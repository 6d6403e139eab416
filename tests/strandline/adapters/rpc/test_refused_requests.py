"""Typed answers to malformed requests: over a real connection, counted, and seldom logged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
import structlog

from strandline.adapters.rpc.listeners import new_server
from strandline.adapters.rpc.refused_requests import LOGGED_EVERY_S, MALFORMED, RefusedRequests
from strandline.adapters.rpc.wire_errors import error_of_call
from strandline.config import ControllerSettings
from strandline.errors import InvalidRequest, StrandlineError, UnknownTopicOrPartition
from strandline.rpc import admin_pb2_grpc, log_pb2
from tests.broker.storage.support.disk import ManualClock

GARBAGE = b"\xff"
LONG = "x" * 100_000


class Refusing(admin_pb2_grpc.AdminServicer):
    async def DeleteTopics(self, request: Any, context: Any) -> Any:
        raise UnknownTopicOrPartition(LONG)


async def _refusing_stream(requests: AsyncIterator[Any], context: Any) -> None:
    async for _ in requests:
        raise UnknownTopicOrPartition("no such topic")


@asynccontextmanager
async def served(refused: RefusedRequests) -> AsyncIterator[Any]:
    refusing: Any = Refusing  # the other calls are not implemented
    server = new_server(ControllerSettings(), [refused])
    admin_pb2_grpc.add_AdminServicer_to_server(refusing(), server)
    stream: Any = grpc.stream_stream_rpc_method_handler(
        _refusing_stream, log_pb2.FetchRequest.FromString, log_pb2.FetchResponse.SerializeToString
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Streams", {"Fetch": stream}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


async def refusal(channel: Any, path: str, data: bytes) -> StrandlineError | None:
    """What a call, or a stream after one message, ends with."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        if path.endswith("Fetch"):
            stream: Any = channel.stream_stream(path)(timeout=10)
            await stream.write(data)
            await stream.read()
            raise grpc.aio.AioRpcError(
                await stream.code(), grpc.aio.Metadata(), await stream.trailing_metadata()
            )
        await channel.unary_unary(path)(data, timeout=10)
    return error_of_call(raised.value)


@pytest.mark.parametrize("path", ["/strandline.v1.Admin/CreateTopics", "/test.Streams/Fetch"])
async def test_bytes_that_are_no_request_get_a_typed_answer_and_one_line_a_minute(path: str) -> None:
    """A traceback for each byte filled the log."""
    clock = ManualClock()
    refused = RefusedRequests(clock)
    async with served(refused) as channel:
        with structlog.testing.capture_logs() as logs:
            for _ in range(5):
                assert isinstance(await refusal(channel, path, GARBAGE), InvalidRequest)
            clock.ms += int(LOGGED_EVERY_S * 1000)
            await refusal(channel, path, GARBAGE)
    assert [(line["event"], line["so_far"]) for line in logs] == [
        ("malformed request", 1), ("malformed request", 6),
    ]  # fmt: skip
    ((metric, labels, value),) = refused.read()
    assert (metric, value) == (MALFORMED, 6)
    assert labels == (path.rpartition("/")[2] + "Request",)


async def test_what_a_handler_refuses_is_what_its_caller_gets_whatever_the_length() -> None:
    """The message travels in headers, which the caller bounds."""
    async with served(RefusedRequests(ManualClock())) as channel:
        error = await refusal(channel, "/strandline.v1.Admin/DeleteTopics", b"")
        assert isinstance(error, UnknownTopicOrPartition)
        assert 500 < len(error.message) < 3_000
        error = await refusal(channel, "/test.Streams/Fetch", b"")
        assert isinstance(error, UnknownTopicOrPartition)


async def test_headers_and_calls_are_bounded() -> None:
    """60 KB of headers a call grew a broker to 1.3 GB."""
    async with served(RefusedRequests(ManualClock())) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await channel.unary_unary("/strandline.v1.Admin/DeleteTopics")(
                b"", timeout=10, metadata=(("x", "y" * 60_000),)
            )
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
