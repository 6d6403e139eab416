"""Typed answers to malformed requests: over a real connection, counted, and seldom logged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import grpc
import pytest
import structlog
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2_grpc

from strandline.adapters.rpc.grpc_listener import add_calls, new_server
from strandline.adapters.rpc.refused_requests import LOGGED_EVERY_S, MALFORMED, RefusedRequests
from strandline.adapters.rpc.request_parsing import parse
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.adapters.rpc.wire_errors import error_of_call
from strandline.config.services.controller import ControllerSettings
from strandline.errors import InvalidRequest, StrandlineError, UnknownTopicOrPartition
from strandline.ports import Caller, Listener, Reply, Rpc, Served, ServedCall, ServedStream
from strandline.rpc import admin_pb2, log_pb2
from tests.broker.storage.support.disk import ManualClock

GARBAGE = b"\xff"
LONG = "x" * 100_000


async def _refusing(request: Any, caller: Caller) -> Any:
    raise UnknownTopicOrPartition(LONG)


async def _refusing_stream(requests: AsyncIterator[Any], reply: Reply[Any], caller: Caller) -> None:
    async for _ in requests:
        raise UnknownTopicOrPartition("no such topic")


async def _refusing_on_its_way(requests: AsyncIterator[Any], reply: Reply[Any], caller: Caller) -> None:
    """Refuses while the first message is being sent by another task."""

    async def begin() -> None:
        await reply(b"first")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(begin())
        await asyncio.sleep(0)
        raise UnknownTopicOrPartition("no such topic")


def rpc(path: str, kind: type[Message]) -> Rpc[Message, bytes]:
    return Rpc(path, partial(parse, kind), lambda answer, to: answer)


SERVED: Sequence[Served] = [
    ServedCall(rpc("/test.Calls/Create", admin_pb2.CreateTopicsRequest), _refusing),
    ServedCall(rpc("/test.Calls/Delete", admin_pb2.DeleteTopicsRequest), _refusing),
    ServedStream(rpc("/test.Streams/Fetch", log_pb2.FetchRequest), _refusing_stream),
    ServedStream(rpc("/test.Late/Fetch", log_pb2.FetchRequest), _refusing_on_its_way),
]


@asynccontextmanager
async def served(refused: RefusedRequests) -> AsyncIterator[Any]:
    server = new_server(ControllerSettings(), refused.note)
    clock = ManualClock()
    add_calls(server, SERVED, Listener.INTERNAL, clock, RequestTimes(clock).observe, refused.note)
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


async def refusal(channel: Any, path: str, data: bytes) -> StrandlineError | None:
    """The error with which a call, or a stream after one message, ends."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        if path.endswith("Fetch"):
            stream: Any = channel.stream_stream(path)(timeout=10)
            await stream.write(data)
            while isinstance(await stream.read(), bytes):
                pass
            raise grpc.aio.AioRpcError(
                await stream.code(), grpc.aio.Metadata(), await stream.trailing_metadata()
            )
        await channel.unary_unary(path)(data, timeout=10)
    return error_of_call(raised.value)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/test.Calls/Create", "CreateTopicsRequest"),
        ("/test.Streams/Fetch", "FetchRequest"),
        ("/grpc.health.v1.Health/Check", "HealthCheckRequest"),
    ],
)
async def test_bytes_that_are_no_request_get_a_typed_answer_and_one_line_a_minute(
    path: str, kind: str
) -> None:
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
    (metric, labels, value), _ = refused.read()
    assert (metric, value) == (MALFORMED, 6)
    assert labels == (kind,)


async def test_a_handlers_refusal_reaches_its_caller_at_any_length() -> None:
    """The message travels in headers, which the caller bounds."""
    async with served(RefusedRequests(ManualClock())) as channel:
        error = await refusal(channel, "/test.Calls/Delete", b"")
        assert isinstance(error, UnknownTopicOrPartition)
        assert 500 < len(error.message) < 3_000
        error = await refusal(channel, "/test.Streams/Fetch", b"")
        assert isinstance(error, UnknownTopicOrPartition)


async def test_a_stream_is_refused_though_its_first_message_was_not_sent_whole() -> None:
    """gRPC never ended such a stream: the caller waited until its deadline, a follower until the silence."""
    async with served(RefusedRequests(ManualClock())) as channel:
        assert isinstance(await refusal(channel, "/test.Late/Fetch", b""), UnknownTopicOrPartition)


async def test_headers_and_calls_are_bounded() -> None:
    """60 KB of headers a call grew a broker to 1.3 GB."""
    async with served(RefusedRequests(ManualClock())) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await channel.unary_unary("/test.Calls/Delete")(b"", timeout=10, metadata=(("x", "y" * 60_000),))
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
