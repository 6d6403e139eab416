"""Wrong or malicious bytes on a broker's port: the broker continues to serve. The refusals of requests are in
tests/broker/log/test_invalid_requests.py."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import grpc
import pytest

from strandline.config.limits import MESSAGE_BYTES_MAX
from strandline.ids import TopicPartition
from strandline.records import encode_values
from strandline.rpc import log_pb2
from tests.integration.support.harness import Harness, Topic
from tests.integration.support.raw import CALL_S_MAX

GOOD = encode_values([b"good"], 1_700_000_000_000)
GARBAGE_LOGGED_MAX = 2_000
"""Characters in a broker's log, for twenty connections of garbage."""


@pytest.fixture
async def topic(shared: Harness) -> AsyncIterator[Topic]:
    """One partition that broker 1 alone has, and still serves when the test is over."""
    topic = await shared.create_topic([(1,)])
    yield topic
    result = await produced(topic, GOOD)
    assert result.error.code == 0, result


def entry(name: TopicPartition, records: bytes) -> log_pb2.PartitionRecords:
    return log_pb2.PartitionRecords(
        correlation_id=7, topic=name.topic, partition=name.partition, acks=-1, timeout_ms=3_000,
        records=records,
    )  # fmt: skip


async def produced(topic: Topic, records: bytes) -> log_pb2.ProduceResult:
    """The leader's answer to one entry."""
    call = topic.harness.brokers.log(1).Produce(timeout=CALL_S_MAX)
    await call.write(log_pb2.ProduceRequest(entries=[entry(topic.partitions[0], records)]))
    response = await call.read()
    call.cancel()
    assert isinstance(response, log_pb2.ProduceResponse)
    (result,) = response.results
    assert result.correlation_id == 7
    return result


async def test_a_message_over_the_transports_limit_ends_that_stream_only(topic: Topic) -> None:
    call = topic.harness.brokers.log(1).Produce(timeout=CALL_S_MAX)
    too_large = entry(topic.partitions[0], bytes(MESSAGE_BYTES_MAX + 1))
    with contextlib.suppress(grpc.aio.AioRpcError):
        await call.write(log_pb2.ProduceRequest(entries=[too_large]))
        assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    "garbage",
    [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01" + os.urandom(200), os.urandom(100_000)],
    ids=["nothing", "http", "tls", "noise"],
)
async def test_garbage_on_the_port_affects_no_client(topic: Topic, garbage: bytes) -> None:
    host, _, port = topic.local.cluster.address(1).rpartition(":")
    logged = len(topic.local.log_text(1))
    for _ in range(20):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(garbage)
        if garbage:
            async with asyncio.timeout(CALL_S_MAX):
                while await reader.read(65_536):  # until the broker hangs up
                    pass
        writer.close()
    assert len(topic.local.log_text(1)) - logged < GARBAGE_LOGGED_MAX


@pytest.mark.parametrize("method", ["Produce", "Fetch"])
async def test_a_stream_message_that_is_no_protobuf_ends_its_stream_only(topic: Topic, method: str) -> None:
    async with grpc.aio.insecure_channel(topic.local.cluster.address(1)) as channel:
        multicallable: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            f"/strandline.v1.Log/{method}"
        )
        stream = multicallable(timeout=CALL_S_MAX)
        await stream.write(b"\xff" * 100)
        with contextlib.suppress(grpc.aio.AioRpcError):
            assert await stream.read() is grpc.aio.EOF
        assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "Traceback" not in topic.local.log_text(1)


@pytest.mark.parametrize("method", ["Metadata", "ListOffsets", "DropEverything"])
async def test_a_call_that_is_no_protobuf_or_no_method_ends_alone(topic: Topic, method: str) -> None:
    async with grpc.aio.insecure_channel(topic.local.cluster.address(1)) as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            f"/strandline.v1.Log/{method}"
        )
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call(b"\xff" * 100, timeout=CALL_S_MAX)
    unknown = method == "DropEverything"
    wanted = grpc.StatusCode.UNIMPLEMENTED if unknown else grpc.StatusCode.INVALID_ARGUMENT
    assert raised.value.code() is wanted
    assert "Traceback" not in topic.local.log_text(1)
