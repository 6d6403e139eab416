"""Connections that no client makes: a broker closes them, keeps its memory, and serves the others."""

from __future__ import annotations

from contextlib import AsyncExitStack
from random import Random, SystemRandom
from typing import Any

import pytest

from strandline import Admin
from strandline.config.limits import KIB, MIB
from strandline.local.cluster import LocalCluster
from tests.broker.kafka.support.kafka_wire import KafkaWire, kafka_wire
from tests.broker.kafka.support.messages import (
    API_VERSIONS,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
)
from tests.broker.kafka.support.schemas import Schema
from tests.conftest import ClusterFactory
from tests.integration.support.stall_probe import memory_bytes
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
        found = await wire.ask(API_VERSIONS, 3, {"software_name": "t", "software_version": "1"})
        assert found["error"] == 0
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


async def test_damaged_requests_are_answered_or_end_their_connection(cluster: LocalCluster) -> None:
    """CORRECTNESS X6: requests of every kind with a few bytes changed. No process ends."""
    seed = SystemRandom().randrange(2**32)
    random = Random(seed)
    for _ in range(60):
        schema, values = random.choice(REQUESTS)
        version = random.choice(schema.versions)
        data = bytearray(schema.encode_request(version, values))
        for _ in range(random.randrange(1, 5)):
            data[random.randrange(len(data))] = random.randrange(256)
        async with kafka_wire(cluster.kafka_bootstrap) as wire:
            wire.send(len(data).to_bytes(4, "big") + data)
            wire.writer.write_eof()
            await wire.ended()
    try:
        await serves(cluster)
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise


async def test_a_client_that_reads_no_answers_is_not_read(cluster: LocalCluster) -> None:
    """CORRECTNESS X6: its requests wait in its own buffers."""
    before = memory_bytes(cluster.pid(1))
    data = METADATA.encode_request(1, {"topics": None})
    framed = len(data).to_bytes(4, "big") + data
    async with kafka_wire(cluster.kafka_bootstrap) as wire:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        wire.send(framed * (16 * MIB // len(framed)))
        await eventually(lambda: wire.writer.transport.get_write_buffer_size() > 0)
        await serves(cluster)
        assert wire.writer.transport.get_write_buffer_size() > MIB
        assert memory_bytes(cluster.pid(1)) - before < MEMORY_BYTES_MAX


# --- refused in words ---------------------------------------------------------------------------


def of_tides(**partition: Any) -> list[dict[str, Any]]:
    return [{"name": "tides", "partitions": [partition]}]


REQUESTS: list[tuple[Schema, dict[str, Any]]] = [
    (
        PRODUCE,
        {
            "transactional_id": None, "acks": -1, "timeout_ms": 500,
            "topics": of_tides(partition=0, records=bytes(80)),
        },
    ),
    (
        FETCH,
        {
            "replica": -1, "wait_ms": 50, "bytes_min": 1, "bytes_max": MIB, "isolation_level": 0,
            "session_id": 0, "session_epoch": -1, "forgotten": [], "rack": "",
            "topics": of_tides(
                partition=0, leader_epoch=-1, offset=0, last_fetched_epoch=-1, log_start_offset=-1,
                bytes_max=64 * KIB,
            ),
        },
    ),
    (
        LIST_OFFSETS,
        {
            "replica": -1, "isolation_level": 0,
            "topics": of_tides(partition=0, leader_epoch=-1, timestamp_ms=-1),
        },
    ),
    (
        METADATA,
        {
            "topics": [{"topic_id": "0" * 32, "name": "tides"}], "auto_create": False,
            "cluster_operations": False, "topic_operations": False,
        },
    ),
    (FIND_COORDINATOR, {"key": "g", "kind": 0, "keys": ["g"]}),
    (
        INIT_PRODUCER_ID,
        {"transactional_id": None, "timeout_ms": 0, "producer_id": -1, "producer_epoch": -1},
    ),
    (
        OFFSET_FOR_LEADER_EPOCH,
        {"replica": -1, "topics": of_tides(partition=0, current_epoch=-1, epoch=0)},
    ),
]  # fmt: skip


async def ask(cluster: LocalCluster, schema: Any, version: int, **changed: Any) -> dict[str, Any]:
    (values,) = [values for known, values in REQUESTS if known is schema]
    async with kafka_wire(cluster.kafka_bootstrap) as wire:
        return await wire.ask(schema, version, {**values, **changed})


def only(found: dict[str, Any]) -> dict[str, Any]:
    ((partition,),) = [topic["partitions"] for topic in found["topics"]]
    answer: dict[str, Any] = partition
    return answer


async def test_transactions_are_refused_at_once(cluster: LocalCluster) -> None:
    """With an error that clients take for fatal."""
    assert (await ask(cluster, INIT_PRODUCER_ID, 4, transactional_id="t"))["error"] == NO_TRANSACTIONS
    (found,) = (await ask(cluster, FIND_COORDINATOR, 4, kind=1, keys=["t"]))["found"]
    assert found["error"] == NO_TRANSACTIONS and "no transactions" in found["message"]
    found = only(await ask(cluster, PRODUCE, 9, transactional_id="t"))
    assert found["error"] == NO_TRANSACTIONS and "no transactions" in found["message"]


async def test_old_message_formats_are_refused(cluster: LocalCluster) -> None:
    for version in (0, 1, 2):
        assert only(await ask(cluster, PRODUCE, version))["error"] == UNSUPPORTED


async def test_no_fetch_session_is_known(cluster: LocalCluster) -> None:
    """A client that believes in one sends a whole request next (KIP-227)."""
    found = await ask(cluster, FETCH, 12, session_id=5, session_epoch=1)
    assert (found["error"], found["session_id"], found["topics"]) == (NO_SESSION, 0, [])


async def test_every_group_has_a_coordinator(cluster: LocalCluster) -> None:
    async def found_at() -> str | None:
        found = await ask(cluster, FIND_COORDINATOR, 0)
        return f"{found['host']}:{found['port']}" if found["error"] == 0 else None

    assert await eventually(found_at) == cluster.kafka_bootstrap


async def test_metadata_by_name_by_id_and_of_all(cluster: LocalCluster) -> None:
    found = await ask(cluster, METADATA, 12)
    (topic,) = found["topics"]
    assert f"{found['brokers'][0]['host']}:{found['brokers'][0]['port']}" == cluster.kafka_bootstrap
    assert (topic["error"], topic["name"], topic["partitions"][0]["leader"]) == (0, "tides", 1)
    by_id = await ask(cluster, METADATA, 12, topics=[{"topic_id": topic["topic_id"], "name": None}])
    assert by_id["topics"] == [topic]
    missing = await ask(cluster, METADATA, 12, topics=[{"topic_id": "f" * 32, "name": None}])
    assert (missing["topics"][0]["error"], missing["topics"][0]["name"]) == (100, None)
    unknown = [{"name": "nowhere"}, {"name": "no/name"}]
    missing = await ask(cluster, METADATA, 4, topics=unknown, auto_create=False)
    assert [each["error"] for each in missing["topics"]] == [NOT_FOUND, 17]
    for version, every in ((0, []), (1, None)):
        names = [each["name"] for each in (await ask(cluster, METADATA, version, topics=every))["topics"]]
        assert "tides" in names
    assert (await ask(cluster, METADATA, 1, topics=[]))["topics"] == []


async def test_times_that_are_not_served_are_refused_alone(cluster: LocalCluster) -> None:
    """The largest timestamp, and tiered storage."""
    async with kafka_wire(cluster.kafka_bootstrap) as wire:
        times = [-1, -3, -2, -4, -5]
        partitions = [{"partition": 0, "leader_epoch": -1, "timestamp_ms": each} for each in times]
        values = {
            "replica": -1,
            "isolation_level": 0,
            "topics": [{"name": "tides", "partitions": partitions}],
        }
        found = await wire.ask(LIST_OFFSETS, 7, values)
    assert [each["error"] for each in found["topics"][0]["partitions"]] == [
        0, UNSUPPORTED, 0, UNSUPPORTED, UNSUPPORTED,
    ]  # fmt: skip


async def test_epochs_end_and_start_where_the_leader_says(cluster: LocalCluster) -> None:
    """KIP-320, and KIP-101's fence: a client that knows another epoch of the leader learns it at once."""
    listed = only(await ask(cluster, LIST_OFFSETS, 7))
    epoch = listed["leader_epoch"]
    end = only(await ask(cluster, OFFSET_FOR_LEADER_EPOCH, 4, topics=of_epoch(epoch, epoch)))
    assert (end["error"], end["end_offset"]) == (0, listed["offset"])
    found = only(await ask(cluster, OFFSET_FOR_LEADER_EPOCH, 2, topics=of_epoch(epoch + 1, epoch)))
    assert found["error"] == UNKNOWN_EPOCH
    asked = of_tides(partition=0, leader_epoch=epoch + 1, timestamp_ms=-1)
    assert only(await ask(cluster, LIST_OFFSETS, 7, topics=asked))["error"] == UNKNOWN_EPOCH


def of_epoch(current: int, epoch: int) -> list[dict[str, Any]]:
    return of_tides(partition=0, current_epoch=current, epoch=epoch)


async def test_requests_in_one_write_are_answered_in_order(cluster: LocalCluster) -> None:
    async with kafka_wire(cluster.kafka_bootstrap) as wire:
        sent = []
        for number in range(40):
            schema, values = REQUESTS[number % len(REQUESTS)]
            data = schema.encode_request(schema.last, values, correlation_id=number)
            sent.append(len(data).to_bytes(4, "big") + data)
        wire.send(b"".join(sent))
        for number, (schema, _) in zip(range(40), REQUESTS * 6, strict=False):
            assert (await answer(wire, schema))[0] == number


async def answer(wire: KafkaWire, schema: Any) -> tuple[int, dict[str, Any]]:
    found: tuple[int, dict[str, Any]] = schema.decode_answer(schema.last, await wire.frame())
    return found
