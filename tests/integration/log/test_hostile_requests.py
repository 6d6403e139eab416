"""Hostile requests to a broker or a controller: typed answers, bounded memory, no stall, and no process ends.

Each RPC of `Log`, `Replication` and `Admin` gets large hostile requests for a fixed time. A failure names the
seed; `--fuzz-seed` repeats it. `tests/integration/hostile` sends more, and smaller ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from typing import Any

import grpc
import pytest

from strandline import Admin, NewTopic
from strandline.config.limits import MIB
from strandline.errors import ErrorCode
from strandline.local.cluster import LocalCluster
from strandline.records import Codec, encode_values, pack
from strandline.rpc import admin_pb2, log_pb2, log_pb2_grpc, replication_pb2
from tests.conftest import ClusterFactory
from tests.integration.hostile.support.hostile_calls import OPTIONS, Rpc, rpcs_of, send
from tests.integration.hostile.support.hostile_messages import Hostile
from tests.integration.hostile.support.watched import (
    MEMORY_BYTES_MAX,
    STALL_S_MAX,
    Watched,
    watched_broker,
    watched_controller,
)

pytestmark = pytest.mark.slow

SEND_S = 1.0
"""For each RPC."""
SENDERS = 2
CALL_S_MAX = 1.0
STREAM_MESSAGES = 20

LOG_RPCS = [*rpcs_of(log_pb2, "Log"), *rpcs_of(replication_pb2, "Replication")]
ADMIN_RPCS = rpcs_of(admin_pb2, "Admin")


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    cluster = await make_module_cluster(brokers=1)
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics(
            [NewTopic("plain", 2, 1), NewTopic("keyed", 1, 1, {"cleanup.policy": "compact"})]
        )
    return cluster


@pytest.fixture(scope="module")
async def broker(cluster: LocalCluster) -> AsyncIterator[Watched]:
    async with watched_broker(cluster) as found:
        yield found


@pytest.fixture(scope="module")
async def controller(cluster: LocalCluster) -> AsyncIterator[Watched]:
    async with watched_controller(cluster) as found:
        yield found


async def survives(target: Watched, seed: int, rpc: Rpc, given: Any) -> None:
    async def send_for_a_time(hostile: Hostile) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + SEND_S
        async with grpc.aio.insecure_channel(target.address, options=OPTIONS) as channel:
            while loop.time() < ends:
                messages = (hostile.message(rpc.request) for _ in range(STREAM_MESSAGES))
                await send(channel, rpc, messages, CALL_S_MAX)

    what = f"seed {seed}: {rpc.name}"
    async with target.harmless(what):
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(SENDERS):
                    hostile = Hostile(Random(seed + number), ["plain", "keyed"], given)
                    tasks.create_task(send_for_a_time(hostile))
        except BaseExceptionGroup as group:
            group.add_note(what)
            raise


@pytest.mark.parametrize("rpc", LOG_RPCS, ids=lambda rpc: rpc.name)
async def test_a_broker_survives_hostile_requests(
    broker: Watched, cluster: LocalCluster, fuzz_seed: int, rpc: Rpc
) -> None:
    """Every field at its bounds, counts that lie, bytes that are no request."""
    await survives(broker, fuzz_seed, rpc, {"leader_id": lambda r: r.choice((1, 1, 1, 2))})
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


async def test_unread_answers_are_not_read_from_the_disk(broker: Watched, cluster: LocalCluster) -> None:
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
    broker: Watched, cluster: LocalCluster
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


@pytest.mark.parametrize("rpc", ADMIN_RPCS, ids=lambda rpc: rpc.name)
async def test_a_controller_survives_hostile_requests(controller: Watched, fuzz_seed: int, rpc: Rpc) -> None:
    """Every field at its bounds, counts that lie, bytes that are no request."""
    await survives(controller, fuzz_seed, rpc, {"validate_only": lambda r: True})
