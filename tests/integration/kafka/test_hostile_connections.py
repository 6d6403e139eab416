"""Connections that no client makes: a broker closes them, keeps its memory, and serves the others."""

from __future__ import annotations

from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest

from strandline import Admin
from strandline.broker.kafka.wire.apis import (
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    ApiWire,
)
from strandline.config.limits import KIB, MIB
from strandline.local.cluster import LocalCluster
from tests.broker.kafka.support.codec import (
    API_VERSIONS,
    decode_answer,
    encode_request,
)
from tests.broker.kafka.support.kafka_wire import kafka_wire
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.recorded import RECORDED
from tests.broker.kafka.support.recorded_admin import RECORDED_ADMIN
from tests.broker.kafka.support.recorded_groups import RECORDED_GROUPS
from tests.conftest import ClusterFactory
from tests.integration.hostile.support.stall_probe import memory_bytes
from tests.waiting import eventually

LIARS = 300
LIE_BYTES = 15 * MIB
MEMORY_BYTES_MAX = 100 * MIB
FRAME_MS_MAX = 500
NOT_FOUND = 3
UNSUPPORTED = 35
NO_TRANSACTIONS = 53
NO_SESSION = 70
UNKNOWN_EPOCH = 75


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    cluster = await make_module_cluster(
        brokers=1, kafka=True, broker_settings={"kafka_frame_ms_max": FRAME_MS_MAX}
    )
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("tides", partitions=1, replication_factor=1)
    return cluster


async def serves(cluster: LocalCluster) -> None:
    """It still answers, and has logged no defect."""
    async with kafka_wire(cluster.kafka_bootstrap) as wire:
        found = await wire.ask(API_VERSIONS, 3)
        assert found["error_code"] == 0
    assert "raceback" not in cluster.log_path(1).read_text()


async def test_lengths_that_are_lies_cost_no_memory(cluster: LocalCluster) -> None:
    """CORRECTNESS X6: each of 300 connections announces 15 MiB, and sends a byte of it. After a while all are
    closed."""
    before = memory_bytes(cluster.pid(1))
    async with AsyncExitStack() as stack:
        liars = [await stack.enter_async_context(kafka_wire(cluster.kafka_bootstrap)) for _ in range(LIARS)]
        for liar in liars:
            liar.send(LIE_BYTES.to_bytes(4, "big") + b"x")
        await serves(cluster)
        assert memory_bytes(cluster.pid(1)) - before < MEMORY_BYTES_MAX
        for liar in liars:
            assert await liar.ended() == b""
    await serves(cluster)


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        bytes(4),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0\0\0\x05hello",
        b"\0\0\0\x0a\0\x03\x7f\xff\0\0\0\x01\xff\xff",  # Metadata of the future
        b"\0\0\0\x0a\0\x63\0\0\0\0\0\x01\xff\xff",  # an API of the future
    ],
    ids=["huge", "negative", "empty", "http", "tls", "short", "version", "api"],
)
async def test_bytes_that_are_no_request_end_the_connection(cluster: LocalCluster, data: bytes) -> None:
    async with kafka_wire(cluster.kafka_bootstrap) as wire:
        wire.send(data)
        assert await wire.ended() == b""
    await serves(cluster)


async def test_half_a_request_ends_the_connection(cluster: LocalCluster) -> None:
    async with kafka_wire(cluster.kafka_bootstrap) as wire:
        wire.send(b"\0\0")
        assert await wire.ended() == b""


async def test_damaged_requests_are_answered_or_end_their_connection(
    cluster: LocalCluster, fuzz_seed: int
) -> None:
    """CORRECTNESS X6: requests of clients with a few bytes changed. No process ends."""
    random = Random(fuzz_seed)
    for _ in range(60):
        data = bytearray(random.choice((*RECORDED, *RECORDED_ADMIN, *RECORDED_GROUPS)).request)
        for _ in range(random.randrange(1, 5)):
            data[random.randrange(len(data))] = random.randrange(256)
        async with kafka_wire(cluster.kafka_bootstrap) as wire:
            wire.send(len(data).to_bytes(4, "big") + data)
            wire.writer.write_eof()
            await wire.ended()
    try:
        await serves(cluster)
    except Exception as error:
        error.add_note(f"seed {fuzz_seed}")
        raise


async def test_a_client_that_reads_no_answers_is_not_read(cluster: LocalCluster) -> None:
    """CORRECTNESS X6: its requests wait in its own buffers."""
    before = memory_bytes(cluster.pid(1))
    data = encode_request(METADATA.key, 1, {"topics": None})
    framed = len(data).to_bytes(4, "big") + data
    async with kafka_wire(cluster.kafka_bootstrap) as wire:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        wire.send(framed * (16 * MIB // len(framed)))
        await eventually(lambda: wire.writer.transport.get_write_buffer_size() > 0)
        await serves(cluster)
        assert wire.writer.transport.get_write_buffer_size() > MIB
        assert memory_bytes(cluster.pid(1)) - before < MEMORY_BYTES_MAX


# --- refused in words ---------------------------------------------------------------------------


def of_tides(name: str, partitions: str, **partition: Any) -> list[Values]:
    """The one partition, in a structure with these names for its fields."""
    return [{name: "tides", partitions: [partition]}]


REQUESTS: dict[ApiWire[Any, Any], Values] = {
    PRODUCE: {
        "acks": -1,
        "timeout_ms": 500,
        "topic_data": of_tides("name", "partition_data", index=0, records=bytes(80)),
    },
    FETCH: {
        "max_wait_ms": 50,
        "min_bytes": 1,
        "topics": of_tides("topic", "partitions", partition=0, fetch_offset=0, partition_max_bytes=64 * KIB),
    },
    LIST_OFFSETS: {
        "replica_id": -1,
        "topics": of_tides("name", "partitions", partition_index=0, timestamp=-1),
    },
    METADATA: {"topics": [{"name": "tides"}], "allow_auto_topic_creation": False},
    FIND_COORDINATOR: {"coordinator_keys": ["g"]},
    INIT_PRODUCER_ID: {},
    OFFSET_FOR_LEADER_EPOCH: {"topics": of_tides("topic", "partitions", partition=0, leader_epoch=0)},
}
"""Of the last version of each API."""


async def ask(cluster: LocalCluster, wire: ApiWire[Any, Any], version: int, /, **values: Any) -> Values:
    async with kafka_wire(cluster.kafka_bootstrap) as connection:
        return await connection.ask(wire.key, version, **values)


async def ask_last(cluster: LocalCluster, wire: ApiWire[Any, Any], /, **changed: Any) -> Values:
    return await ask(cluster, wire, wire.last, **{**REQUESTS[wire], **changed})


def only(found: Values) -> Values:
    """What an answer says about its one partition."""
    (topic,) = found.get("topics") or found["responses"]
    (partition,) = topic.get("partitions") or topic["partition_responses"]
    answer: Values = partition
    return answer


async def test_transactions_are_refused_at_once(cluster: LocalCluster) -> None:
    """With an error that clients take for fatal."""
    found = await ask_last(cluster, INIT_PRODUCER_ID, transactional_id="t")
    assert found["error_code"] == NO_TRANSACTIONS
    (found,) = (await ask_last(cluster, FIND_COORDINATOR, key_type=1))["coordinators"]
    assert found["error_code"] == NO_TRANSACTIONS and "no transactions" in found["error_message"]
    found = only(await ask_last(cluster, PRODUCE, transactional_id="t"))
    assert found["error_code"] == NO_TRANSACTIONS and "no transactions" in found["error_message"]


async def test_old_message_formats_are_refused(cluster: LocalCluster) -> None:
    for version in (0, 1, 2):
        found = await ask(cluster, PRODUCE, version, **REQUESTS[PRODUCE])
        assert only(found)["error_code"] == UNSUPPORTED


async def test_no_fetch_session_is_known(cluster: LocalCluster) -> None:
    """A client that believes in one sends a whole request next (KIP-227)."""
    found = await ask_last(cluster, FETCH, session_id=5, session_epoch=1)
    assert (found["error_code"], found["session_id"], found["responses"]) == (NO_SESSION, 0, [])


async def test_every_group_has_a_coordinator(cluster: LocalCluster) -> None:
    async def found_at() -> str | None:
        found = await ask(cluster, FIND_COORDINATOR, 0, key="g")
        return f"{found['host']}:{found['port']}" if found["error_code"] == 0 else None

    assert await eventually(found_at) == cluster.kafka_bootstrap


async def test_metadata_by_name_by_id_and_of_all(cluster: LocalCluster) -> None:
    found = await ask_last(cluster, METADATA)
    (topic,) = [each for each in found["topics"] if each["name"] == "tides"]
    assert f"{found['brokers'][0]['host']}:{found['brokers'][0]['port']}" == cluster.kafka_bootstrap
    assert (topic["error_code"], topic["name"], topic["partitions"][0]["leader_id"]) == (0, "tides", 1)
    by_id = await ask_last(cluster, METADATA, topics=[{"topic_id": topic["topic_id"]}])
    assert by_id["topics"] == [topic]
    (missing,) = (await ask_last(cluster, METADATA, topics=[{"topic_id": "f" * 32}]))["topics"]
    assert (missing["error_code"], missing["name"]) == (100, None)
    unknown = [{"name": "nowhere"}, {"name": "no/name"}]
    absent = await ask(cluster, METADATA, 4, topics=unknown, allow_auto_topic_creation=False)
    assert [each["error_code"] for each in absent["topics"]] == [NOT_FOUND, 17]
    for version, every in ((0, []), (1, None)):
        names = [each["name"] for each in (await ask(cluster, METADATA, version, topics=every))["topics"]]
        assert "tides" in names
    assert (await ask(cluster, METADATA, 1, topics=[]))["topics"] == []


async def test_times_that_are_not_served_are_refused_alone(cluster: LocalCluster) -> None:
    """Those of tiered storage."""
    partitions = [{"partition_index": 0, "timestamp": each} for each in (-1, -3, -2, -4, -5)]
    found = await ask_last(cluster, LIST_OFFSETS, topics=[{"name": "tides", "partitions": partitions}])
    assert [each["error_code"] for each in found["topics"][0]["partitions"]] == [
        0, 0, 0, UNSUPPORTED, UNSUPPORTED,
    ]  # fmt: skip


async def test_epochs_end_and_start_where_the_leader_says(cluster: LocalCluster) -> None:
    """KIP-320, and KIP-101's fence: a client that knows another epoch of the leader learns it at once."""
    listed = only(await ask_last(cluster, LIST_OFFSETS))
    epoch = listed["leader_epoch"]
    end = only(await ask_last(cluster, OFFSET_FOR_LEADER_EPOCH, topics=of_epoch(epoch, epoch)))
    assert (end["error_code"], end["end_offset"]) == (0, listed["offset"])
    found = only(await ask(cluster, OFFSET_FOR_LEADER_EPOCH, 2, topics=of_epoch(epoch + 1, epoch)))
    assert found["error_code"] == UNKNOWN_EPOCH
    asked = of_tides("name", "partitions", partition_index=0, current_leader_epoch=epoch + 1, timestamp=-1)
    assert only(await ask_last(cluster, LIST_OFFSETS, topics=asked))["error_code"] == UNKNOWN_EPOCH


def of_epoch(current: int, epoch: int) -> list[Values]:
    return of_tides("topic", "partitions", partition=0, current_leader_epoch=current, leader_epoch=epoch)


async def test_requests_in_one_write_are_answered_in_order(cluster: LocalCluster) -> None:
    asked = list(REQUESTS) * 6
    async with kafka_wire(cluster.kafka_bootstrap) as wire:
        for number, api in enumerate(asked):
            data = encode_request(api.key, api.last, REQUESTS[api], correlation_id=number)
            wire.send(len(data).to_bytes(4, "big") + data)
        for number, api in enumerate(asked):
            assert decode_answer(api.key, api.last, await wire.frame())[0] == number
