"""Wrong or malicious requests of clients: a typed answer, nothing appended, the broker continues to serve."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import grpc
import pytest

from strandline.config.limits import MESSAGE_BYTES_MAX
from strandline.errors import ErrorCode
from strandline.ids import TopicPartition
from strandline.records import encode_values
from strandline.rpc import common_pb2, log_pb2
from strandline.vocabulary.topic_config import TopicConfig
from tests.integration.support.harness import Harness, Topic
from tests.integration.support.raw import CALL_S_MAX
from tests.waiting import eventually

GOOD = encode_values([b"good"], 1_700_000_000_000)
CRC_AT, MAGIC_AT = 17, 16
GARBAGE_LOGGED_MAX = 2_000
"""Characters in a broker's log, for twenty connections of garbage."""


@pytest.fixture
async def topic(shared: Harness) -> AsyncIterator[Topic]:
    """One partition that broker 1 alone has, and still serves when the test is over."""
    topic = await shared.create_topic([(1,)])
    yield topic
    result = await produced(topic, GOOD)
    assert result.error.code == 0, result


def flipped(batch: bytes, at: int) -> bytes:
    return batch[:at] + bytes([batch[at] ^ 0xFF]) + batch[at + 1 :]


def entry(name: TopicPartition, records: bytes, *, acks: int = -1) -> log_pb2.PartitionRecords:
    return log_pb2.PartitionRecords(
        correlation_id=7,
        topic=name.topic,
        partition=name.partition,
        acks=acks,
        timeout_ms=3_000,
        records=records,
    )


async def produced(
    topic: Topic, records: bytes, *, acks: int = -1, name: TopicPartition | None = None
) -> log_pb2.ProduceResult:
    """The leader's answer to one entry."""
    call = topic.harness.brokers.log(1).Produce(timeout=CALL_S_MAX)
    await call.write(log_pb2.ProduceRequest(entries=[entry(name or topic.partitions[0], records, acks=acks)]))
    response = await call.read()
    call.cancel()
    assert isinstance(response, log_pb2.ProduceResponse)
    (result,) = response.results
    assert result.correlation_id == 7
    return result


async def fetched(topic: Topic, **wanted: int | str) -> log_pb2.FetchedPartition:
    stream = topic.harness.brokers.log(1).Fetch(timeout=CALL_S_MAX)
    name = topic.partitions[0]
    partition = log_pb2.FetchPartition(topic=name.topic, leader_epoch=-1, max_bytes=1_000)
    for field, value in wanted.items():
        setattr(partition, field, value)
    await stream.write(
        log_pb2.FetchRequest(correlation_id=1, max_wait_ms=50, min_bytes=1, partitions=[partition])
    )
    response = await stream.read()
    stream.cancel()
    assert isinstance(response, log_pb2.FetchResponse)
    return response.partitions[0]


# --- batches ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", ErrorCode.CORRUPT_MESSAGE),
        (b"\x00" * 200, ErrorCode.CORRUPT_MESSAGE),
        (os.urandom(500), ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:20], ErrorCode.CORRUPT_MESSAGE),
        (GOOD + GOOD[:30], ErrorCode.CORRUPT_MESSAGE),
        (flipped(GOOD, MAGIC_AT), ErrorCode.CORRUPT_MESSAGE),
        (flipped(GOOD, CRC_AT), ErrorCode.CORRUPT_MESSAGE),
        (flipped(GOOD, len(GOOD) - 1), ErrorCode.CORRUPT_MESSAGE),
        (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    ],
    ids=["empty", "zeros", "noise", "cut", "header cut", "tail", "magic", "crc", "bit flip", "two batches"],
)
async def test_a_damaged_batch_is_refused_and_not_appended(
    topic: Topic, records: bytes, code: ErrorCode
) -> None:
    """A broker checks size, magic and CRC; the message says what is wrong."""
    before = await topic.end()
    result = await produced(topic, records)
    assert (result.error.code, bool(result.error.message)) == (code, True)
    assert await topic.end() == before


async def test_a_batch_over_the_topics_limit_is_refused_with_the_limit(topic: Topic) -> None:
    limit = TopicConfig().max_message_bytes
    result = await produced(topic, encode_values([bytes(limit)], 0))
    assert result.error.code == ErrorCode.MESSAGE_TOO_LARGE
    assert result.error.limit == limit
    assert str(limit) in result.error.message


async def test_a_message_over_the_transports_limit_ends_that_stream_only(topic: Topic) -> None:
    call = topic.harness.brokers.log(1).Produce(timeout=CALL_S_MAX)
    too_large = entry(topic.partitions[0], bytes(MESSAGE_BYTES_MAX + 1))
    with contextlib.suppress(grpc.aio.AioRpcError):
        await call.write(log_pb2.ProduceRequest(entries=[too_large]))
        assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


# --- names, epochs, numbers ---------------------------------------------------------------------


@pytest.mark.parametrize("name", [("no-such-topic", 0), ("", 0), ("\x00/..", 0), (None, 99), (None, -1)])
async def test_unknown_partitions_are_distinguished_from_unreachable_ones(
    topic: Topic, name: tuple[str | None, int]
) -> None:
    wanted = TopicPartition(topic.name if name[0] is None else name[0], name[1])
    result = await produced(topic, GOOD, name=wanted)
    assert result.error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert str(wanted.partition) in result.error.message


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_acks_that_do_not_exist_are_refused(topic: Topic, acks: int) -> None:
    before = await topic.end()
    assert (await produced(topic, GOOD, acks=acks)).error.code == ErrorCode.INVALID_REQUIRED_ACKS
    assert await topic.end() == before


async def test_a_fetch_of_an_epoch_that_is_over_is_fenced(topic: Topic) -> None:
    """CORRECTNESS T6: an epoch from the past."""
    epoch = (await topic.state()).leader_epoch
    error = (await fetched(topic, leader_epoch=epoch - 1)).error
    assert error.code == ErrorCode.FENCED_LEADER_EPOCH
    assert str(epoch) in error.message


async def test_a_fetch_of_an_epoch_to_come_is_refused(topic: Topic) -> None:
    """CORRECTNESS T6: an epoch from the future; the answer is retriable, this broker may only be late."""
    epoch = (await topic.state()).leader_epoch
    assert (await fetched(topic, leader_epoch=epoch + 1)).error.code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("offset", [-1, -(2**62), 2**62])
async def test_a_fetch_outside_the_log_is_refused_with_the_range(topic: Topic, offset: int) -> None:
    error = (await fetched(topic, fetch_offset=offset)).error
    assert error.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert "outside 0.." in error.message


async def test_a_follower_answers_with_the_leader_it_knows(shared: Harness) -> None:
    """A typed error that names the leader, so that a client finds it without polling."""
    topic = await shared.create_topic([(1, 2)])
    state = await topic.state()

    async def refusal() -> list[common_pb2.Error]:
        call = shared.brokers.log(3 - state.leader).Produce(timeout=CALL_S_MAX)
        await call.write(log_pb2.ProduceRequest(entries=[entry(topic.partitions[0], GOOD)]))
        response = await call.read()
        call.cancel()
        assert isinstance(response, log_pb2.ProduceResponse)
        error = response.results[0].error
        assert error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        return [error] if error.HasField("leader") else []

    # It is elected in ZooKeeper a moment before the follower hears of it.
    (error,) = await eventually(refusal, what="the follower knows its leader")
    assert f"{error.leader.host}:{error.leader.port}" == shared.cluster.address(state.leader)
    assert (error.leader.id, error.leader_epoch) == (state.leader, state.leader_epoch)


async def test_a_timestamp_that_means_nothing_is_refused(topic: Topic) -> None:
    name = topic.partitions[0]
    wanted = log_pb2.ListOffsetsPartition(topic=name.topic, partition=0, timestamp_ms=-4)
    request = log_pb2.ListOffsetsRequest(partitions=[wanted])
    (listed,) = (await topic.harness.brokers.log(1).ListOffsets(request, timeout=CALL_S_MAX)).partitions
    assert listed.error.code == ErrorCode.INVALID_REQUEST


async def test_one_bad_entry_does_not_spoil_the_others_of_its_message(topic: Topic) -> None:
    call = topic.harness.brokers.log(1).Produce(timeout=CALL_S_MAX)
    name = topic.partitions[0]
    entries = [entry(name, GOOD), entry(name, GOOD[:-1]), entry(name, GOOD)]
    for number, one in enumerate(entries):
        one.correlation_id = number
    await call.write(log_pb2.ProduceRequest(entries=entries))
    codes: dict[int, int] = {}
    while len(codes) < len(entries):
        response = await call.read()
        assert isinstance(response, log_pb2.ProduceResponse)
        codes.update({result.correlation_id: result.error.code for result in response.results})
    call.cancel()
    assert codes == {0: 0, 1: ErrorCode.CORRUPT_MESSAGE, 2: 0}


# --- the port -----------------------------------------------------------------------------------


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
