"""Hostile requests to a broker or a controller: typed answers, bounded memory, no stall, and no process ends.

Each RPC of `Log`, `Replication` and `Admin` gets hostile requests for a fixed time. A failure names the seed;
STRANDLINE_HOSTILE_SEED repeats it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from random import Random, SystemRandom
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from strandline import Admin, NewTopic
from strandline.adapters.rpc.wire_errors import error_of_call
from strandline.config.limits import MIB
from strandline.errors import ErrorCode, UnknownServerError
from strandline.local.cluster import LocalCluster
from strandline.records import Codec, encode_values, pack
from strandline.rpc import admin_pb2, log_pb2, log_pb2_grpc, replication_pb2
from tests.conftest import ClusterFactory
from tests.integration.support.hostile_messages import Hostile

pytestmark = pytest.mark.slow

SEND_S = 1.0
"""For each RPC."""
SENDERS = 2
CALL_S_MAX = 1.0
STREAM_MESSAGES = 20
STALL_S_MAX = 0.5
MEMORY_BYTES_MAX = 300 * MIB
LOG_BYTES_MAX = 100_000

CLIENT_SIDE = "Internal error from Core"
"""gRPC's message for a write to a stream that the other side has ended."""

OF_GRPC = {
    grpc.StatusCode.OK,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,  # the test's own
    grpc.StatusCode.RESOURCE_EXHAUSTED,  # a message over the limit
    grpc.StatusCode.UNAVAILABLE,
}
"""How a call may end without a typed error."""


@dataclass
class Target:
    """One process, what it is asked, and what watches it."""

    address: str
    pid: int
    log: Callable[[], str]
    probe: asyncio.subprocess.Process

    async def worst(self) -> tuple[float, int]:
        """(stall in seconds, memory in bytes), the worst since the last call."""
        assert self.probe.stdin is not None and self.probe.stdout is not None
        self.probe.stdin.write(b"\n")
        found = json.loads(await self.probe.stdout.readline())
        return found["stall_s"], found["memory_bytes"]


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    cluster = await make_module_cluster(brokers=1)
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics(
            [NewTopic("plain", 2, 1), NewTopic("keyed", 1, 1, {"cleanup.policy": "compact"})]
        )
    return cluster


async def _watched(address: str, pid: int, log: Callable[[], str]) -> AsyncIterator[Target]:
    probe = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.support.stall_probe", address, str(pid),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Target(address, pid, log, probe)
    finally:
        probe.kill()
        await probe.wait()


@pytest.fixture(scope="module")
async def broker(cluster: LocalCluster) -> AsyncIterator[Target]:
    path = cluster.log_path(1)
    async for target in _watched(cluster.address(1), cluster.pid(1), path.read_text):
        yield target


@pytest.fixture(scope="module")
async def controller(cluster: LocalCluster) -> AsyncIterator[Target]:
    (member,) = [member for member in cluster.members() if member.kind == "controller"]
    assert member.pid is not None
    (path,) = cluster.log_path(1).parent.glob("controller-*.log")
    async for target in _watched(cluster.controller_address(member.id), member.pid, path.read_text):
        yield target


def _errors(message: Message) -> Iterable[Any]:
    """All `Error`s in an answer."""
    for field, value in message.ListFields():
        for each in value if field.is_repeated else [value]:
            if isinstance(each, Message):
                if each.DESCRIPTOR.name == "Error":
                    yield each
                else:
                    yield from _errors(each)


def _check(message: Message) -> None:
    for error in _errors(message):
        assert error.code >= 0, f"an error that is not typed: {error}"
        assert len(error.message) < 3_000


class Sender:
    """Sends hostile requests of one RPC for a time."""

    def __init__(self, target: Target, path: str, request: type[Message], response: type[Message]) -> None:
        self._target = target
        self._path = path
        self._request = request
        self._response = response

    async def send(self, hostile: Hostile, *, stream: bool, answers: bool) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + SEND_S
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
        async with grpc.aio.insecure_channel(self._target.address, options=options) as opened:
            channel: Any = opened  # its stubs do not know messages that are bytes
            while loop.time() < ends:
                try:
                    if stream:
                        await self._stream(channel, hostile)
                    elif answers:
                        async for answer in channel.unary_stream(self._path)(
                            hostile.message(self._request), timeout=CALL_S_MAX
                        ):
                            _check(self._response.FromString(answer))
                    else:
                        answer = await channel.unary_unary(self._path)(
                            hostile.message(self._request), timeout=CALL_S_MAX
                        )
                        _check(self._response.FromString(answer))
                except grpc.aio.AioRpcError as error:
                    typed = error_of_call(error)
                    assert not isinstance(typed, UnknownServerError), typed
                    ended = error.details() == CLIENT_SIDE
                    assert typed is not None or ended or error.code() in OF_GRPC, error

    async def _stream(self, channel: Any, hostile: Hostile) -> None:
        call = channel.stream_stream(self._path)(timeout=CALL_S_MAX)
        try:
            for _ in range(STREAM_MESSAGES):
                await call.write(hostile.message(self._request))
            await call.done_writing()
        except asyncio.InvalidStateError:
            pass  # it ended meanwhile
        except grpc.aio.AioRpcError:
            pass  # as it says again when it is read
        async for answer in call:
            _check(self._response.FromString(answer))


LOG = "/strandline.v1.Log/"
ADMIN = "/strandline.v1.Admin/"
LOG_RPCS = [
    (f"{LOG}Produce", log_pb2.ProduceRequest, log_pb2.ProduceResponse),
    (f"{LOG}Fetch", log_pb2.FetchRequest, log_pb2.FetchResponse),
    (f"{LOG}ListOffsets", log_pb2.ListOffsetsRequest, log_pb2.ListOffsetsResponse),
    (f"{LOG}Metadata", log_pb2.MetadataRequest, log_pb2.MetadataResponse),
    (f"{LOG}PartitionCounts", log_pb2.PartitionCountsRequest, log_pb2.PartitionCountsResponse),
    (f"{LOG}InitProducerId", log_pb2.InitProducerIdRequest, log_pb2.InitProducerIdResponse),
    (
        "/strandline.v1.Replication/ReplicaFetch",
        replication_pb2.ReplicaFetchRequest,
        replication_pb2.ReplicaFetchResponse,
    ),
]
ADMIN_RPCS = [
    (
        f"{ADMIN}{method.name}",
        getattr(admin_pb2, method.input_type.name),
        getattr(admin_pb2, method.output_type.name),
    )
    for method in admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods
]
STREAMS = ("Produce", "Fetch", "ReplicaFetch")


async def survives(target: Target, path: str, request: Any, response: Any, given: Any = None) -> None:
    seed = int(os.environ.get("STRANDLINE_HOSTILE_SEED", SystemRandom().randrange(2**32)))
    name = path.rpartition("/")[2]
    _, rest_bytes = await target.worst()
    log_before = len(target.log())
    sender = Sender(target, path, request, response)
    try:
        async with asyncio.TaskGroup() as tasks:
            for number in range(SENDERS):
                hostile = Hostile(Random(seed + number), ["plain", "keyed"], given)
                tasks.create_task(
                    sender.send(hostile, stream=name in STREAMS, answers=name == "StateChanges")
                )
    except BaseExceptionGroup as group:
        group.add_note(f"seed {seed}: {name}")
        raise
    stall_s, memory_bytes = await target.worst()
    log = target.log()[log_before:]
    what = f"seed {seed}: {name}"
    assert stall_s <= STALL_S_MAX, f"{what} kept the others waiting for {stall_s:.2f} s of processor time"
    assert memory_bytes - rest_bytes <= MEMORY_BYTES_MAX, f"{what} took {memory_bytes - rest_bytes:,} bytes"
    assert "raceback" not in log, f"{what}: {log[-4000:]}"
    assert len(log) <= LOG_BYTES_MAX, f"{what} had {len(log):,} bytes logged: {log[-4000:]}"


@pytest.mark.parametrize(
    ("path", "request_type", "response_type"), LOG_RPCS, ids=[rpc[0].rpartition("/")[2] for rpc in LOG_RPCS]
)
async def test_a_broker_survives_hostile_requests(
    broker: Target, cluster: LocalCluster, path: str, request_type: Any, response_type: Any
) -> None:
    """Every field at its bounds, counts that lie, bytes that are no request."""
    await survives(broker, path, request_type, response_type, {"leader_id": lambda r: r.choice((1, 1, 1, 2))})
    assert cluster.pid(1) == broker.pid


# --- what a clever client could do with a few kilobytes ---------------------------------------------

STREAMS_UNREAD = 60
FETCHES_IN_FLIGHT = 16
HALF_MIB = 512 * 1024


async def new_topic(cluster: LocalCluster, name: str, *batches: bytes) -> None:
    """One partition with these batches."""
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(name, 1, 1)])
    async with grpc.aio.insecure_channel(cluster.address(1)) as channel:
        stub: log_pb2_grpc.LogAsyncStub = log_pb2_grpc.LogStub(channel)
        call = stub.Produce(timeout=60)
        for number, records in enumerate(batches):
            entry = log_pb2.PartitionRecords(
                correlation_id=number,
                topic=name,
                acks=-1,
                timeout_ms=5_000,
                records=records,
            )
            await call.write(log_pb2.ProduceRequest(entries=[entry]))
        await call.done_writing()
        codes = [result.error.code async for answer in call for result in answer.results]
        assert codes == [0] * len(batches)


async def test_unread_answers_are_not_read_from_the_disk(broker: Target, cluster: LocalCluster) -> None:
    """115 KiB of requests kept 3.2 GB of answers."""
    await new_topic(cluster, "unread", *[encode_values([bytes(HALF_MIB - 200)], 0)] * 2)
    _, rest_bytes = await broker.worst()
    wanted = log_pb2.FetchPartition(topic="unread", leader_epoch=-1, max_bytes=HALF_MIB)
    request = log_pb2.FetchRequest(min_bytes=1, max_bytes=HALF_MIB, partitions=[wanted])
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.insecure_channel(cluster.address(1), options=options) as channel:
        stub: log_pb2_grpc.LogAsyncStub = log_pb2_grpc.LogStub(channel)
        calls = [stub.Fetch(timeout=60) for _ in range(STREAMS_UNREAD)]
        for call in calls:
            for _ in range(FETCHES_IN_FLIGHT):
                await call.write(request)
        # Another connection is served meanwhile; what the broker reads for this one it has read by then.
        async with grpc.aio.insecure_channel(cluster.address(1), options=options) as other:
            stream = log_pb2_grpc.LogStub(other).Fetch(timeout=60)
            for _ in range(50):
                await stream.write(request)
                answer: Any = await stream.read()
                assert len(answer.partitions[0].records) > HALF_MIB - 200
            stream.cancel()
        for call in calls:
            call.cancel()
    _, memory_bytes = await broker.worst()
    assert memory_bytes - rest_bytes <= 100 * MIB


async def test_a_search_by_time_in_highly_compressed_batches_does_not_block_the_loop(
    broker: Target, cluster: LocalCluster
) -> None:
    """64 MiB out of 6 KB were decoded on the event loop: 36 s and 2.5 GB, at each request anew."""
    packed = pack([(None, bytes(12_000_000), (), 0)], codec=Codec.ZSTD)
    lying = replace(packed, max_timestamp=5_000)
    await new_topic(cluster, "times", *[lying.seal()] * 3)
    stall_s, rest_bytes = await broker.worst()
    queries = [
        log_pb2.ListOffsetsPartition(topic="times", timestamp_ms=4_000 + number) for number in range(900)
    ]
    async with grpc.aio.insecure_channel(cluster.address(1)) as channel:
        stub: log_pb2_grpc.LogAsyncStub = log_pb2_grpc.LogStub(channel)
        answer = await stub.ListOffsets(log_pb2.ListOffsetsRequest(partitions=queries), timeout=60)
    stall_s, memory_bytes = await broker.worst()
    assert stall_s <= STALL_S_MAX
    assert memory_bytes - rest_bytes <= MEMORY_BYTES_MAX
    outcomes = {(each.offset, each.error.code) for each in answer.partitions}
    assert outcomes <= {(-1, 0), (0, ErrorCode.OFFSET_NOT_AVAILABLE), (-1, ErrorCode.OFFSET_NOT_AVAILABLE)}
    assert len(answer.partitions) == len(queries)


# --- the controller, last: what it is asked may drain the broker, or delete topics ------------------


@pytest.mark.parametrize(
    ("path", "request_type", "response_type"),
    ADMIN_RPCS,
    ids=[rpc[0].rpartition("/")[2] for rpc in ADMIN_RPCS],
)
async def test_a_controller_survives_hostile_requests(
    controller: Target, path: str, request_type: Any, response_type: Any
) -> None:
    """Every field at its bounds, counts that lie, bytes that are no request."""
    await survives(controller, path, request_type, response_type, {"validate_only": lambda r: True})
