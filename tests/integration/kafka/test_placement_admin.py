"""Kafka's admin clients delete records, move replicas, elect leaders, and see what brokers hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

import pytest
from confluent_kafka import ElectionType, KafkaException
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.errors import (
    InvalidReplicationAssignmentError,
    NoReassignmentInProgressError,
    NotLeaderForPartitionError,
    UnknownTopicOrPartitionError,
)

from strandline import Admin, NewTopic, Producer
from strandline.errors import ErrorCode
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS
from tests.waiting import eventually

T = TypeVar("T")

SLOW_BYTES_PER_S = 1_000
"""A reassignment of a topic of 100 KB stays long enough to be seen and taken back."""
WAIT_S = 20.0


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    slow = {"reassignment_bytes_per_s": SLOW_BYTES_PER_S, "reassignment_near_bytes": 0}
    return await make_module_cluster(brokers=3, broker_settings={**FAULT_SETTINGS, **slow}, kafka=True)


@pytest.fixture(scope="module")
async def admin(cluster: LocalCluster) -> AsyncIterator[Admin]:
    async with Admin(cluster.bootstrap) as admin:
        yield admin


@pytest.fixture(scope="module")
def librdkafka(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})


@pytest.fixture
async def python(cluster: LocalCluster) -> AsyncIterator[KafkaAdminClient]:
    """kafka-python's. None is open while a broker is down: it loses sockets then."""
    client = await call(KafkaAdminClient, bootstrap_servers=cluster.kafka_bootstrap)
    yield client
    await call(client.close)


async def call(function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Runs a client that blocks."""
    return await asyncio.to_thread(function, *arguments, **named)


async def create(admin: Admin, name: str, *replicas: Sequence[int]) -> None:
    await admin.create_topics([NewTopic(name, partitions=0, assignments=replicas)])


async def write(cluster: LocalCluster, topic: str, count: int, size: int = 1) -> None:
    """Writes batches of one record each to partition 0, by one idempotent producer."""

    def send() -> None:
        producer = KafkaProducer(
            bootstrap_servers=cluster.kafka_bootstrap, acks="all", enable_idempotence=True, batch_size=0
        )
        for _ in range(count):
            producer.send(topic, b"x" * size, partition=0)
        producer.flush()
        producer.close()

    await call(send)


# --- records ----------------------------------------------------------------------------------


async def test_records_are_deleted_up_to_exactly_the_offset(
    cluster: LocalCluster, admin: Admin, librdkafka: AdminClient
) -> None:
    """CORRECTNESS H9: the answer is where the log starts, for the client that deletes and for those that
    read."""
    await create(admin, "cut", (1, 2, 3))
    await write(cluster, "cut", 10)

    async def delete(offset: int, partition: int = 0) -> int:
        asked = LibrdkafkaPartition("cut", partition, offset)
        (future,) = librdkafka.delete_records([asked]).values()
        return int((await call(future.result, WAIT_S)).low_watermark)

    assert await delete(4) == 4
    assert await delete(2) == 4, "what is deleted stays deleted"
    with pytest.raises(KafkaException) as above:
        await delete(11)
    assert above.value.args[0].code() == ErrorCode.OFFSET_OUT_OF_RANGE

    def start() -> int:
        consumer = KafkaConsumer(bootstrap_servers=cluster.kafka_bootstrap)
        found = consumer.beginning_offsets([KafkaPartition("cut", 0)])
        consumer.close()
        return int(found[KafkaPartition("cut", 0)])

    assert await call(start) == 4
    assert await delete(-1) == 10, "-1 is the high watermark"


async def test_a_deletion_from_an_unknown_partition_is_refused(
    admin: Admin, python: KafkaAdminClient
) -> None:
    await create(admin, "short", (1,))
    with pytest.raises(UnknownTopicOrPartitionError):
        await call(python.delete_records, {KafkaPartition("short", 1): 0}, partition_leader_id=1)


# --- the cluster ------------------------------------------------------------------------------


async def test_the_cluster_is_described_with_addresses_that_clients_reach(
    cluster: LocalCluster, librdkafka: AdminClient, python: KafkaAdminClient
) -> None:
    described = await call(librdkafka.describe_cluster().result, WAIT_S)
    addresses = {f"{node.host}:{node.port}" for node in described.nodes}
    assert addresses == set(cluster.kafka_bootstrap.split(","))
    found = await call(python.describe_cluster)
    assert {f"{each['host']}:{each['port']}" for each in found["brokers"]} == addresses
    assert found["cluster_id"] == described.cluster_id
    assert found["controller_id"] in cluster.broker_ids, "a broker, which passes requests on"


async def test_log_directories_show_the_size_of_each_replica(
    cluster: LocalCluster, admin: Admin, python: KafkaAdminClient
) -> None:
    await create(admin, "sized", (1, 2))
    await write(cluster, "sized", 3, 1_000)

    async def sizes() -> dict[int, int]:
        found: dict[int, int] = {}
        for answer in await call(python.describe_log_dirs, ["sized"]):
            (directory,) = answer["log_dirs"]
            assert directory["log_dir"] == str(cluster.data_dir(answer["broker"]))
            assert 0 < directory["usable_bytes"] <= directory["total_bytes"]
            for topic in directory["topics"]:
                (partition,) = topic["partitions"]
                assert (topic["name"], partition["offset_lag"]) == ("sized", 0)
                found[answer["broker"]] = partition["partition_size"]
        return found

    assert set(await sizes()) == {1, 2}
    assert all(3_000 < size < 4_000 for size in (await sizes()).values())
    everything = await call(python.describe_log_dirs, None)
    assert [answer["broker"] for answer in everything] == cluster.broker_ids


async def test_active_producers_are_listed_on_every_replica(
    cluster: LocalCluster, admin: Admin, python: KafkaAdminClient
) -> None:
    await create(admin, "produced", (1, 2))
    await write(cluster, "produced", 3)
    await write(cluster, "produced", 1)
    name = KafkaPartition("produced", 0)
    of_leader = (await call(python.describe_producers, [name]))[name].active_producers
    assert sorted(each.last_sequence for each in of_leader) == [0, 2]
    assert all(each.producer_epoch == 0 and each.last_timestamp > 0 for each in of_leader)
    of_follower = (await call(python.describe_producers, [name], broker_id=2))[name].active_producers
    assert [each.producer_id for each in of_follower] == [each.producer_id for each in of_leader]
    async with Admin(cluster.address(3)) as at_3:
        await at_3.metadata(["produced"])  # broker 3 has no replica, and knows from now on that others have
    with pytest.raises(NotLeaderForPartitionError):
        await call(python.describe_producers, [name], broker_id=3)
    with pytest.raises(NotLeaderForPartitionError):
        await call(python.delete_records, {name: 0}, partition_leader_id=3)


# --- placement --------------------------------------------------------------------------------


async def test_a_reassignment_is_seen_and_taken_back(
    cluster: LocalCluster, admin: Admin, python: KafkaAdminClient
) -> None:
    """CORRECTNESS E16: in between, all replicas of both sides are there."""
    await create(admin, "moved", (1, 2))
    await create(admin, "other", (1, 2))
    await write(cluster, "moved", 100, 200_000)  # copied for a moment, in which all of it is seen
    name, other = KafkaPartition("moved", 0), KafkaPartition("other", 0)
    nothing = KafkaPartition("moved", 7)
    asked = {name: [2, 3], other: [2, 9], nothing: [1]}
    results = await call(python.alter_partition_reassignments, asked)
    assert results == {
        name: None, other: InvalidReplicationAssignmentError, nothing: UnknownTopicOrPartitionError
    }  # fmt: skip
    moving = {"replicas": [1, 2, 3], "adding_replicas": [3], "removing_replicas": [1]}
    assert await call(python.list_partition_reassignments) == {name: moving}
    assert await call(python.list_partition_reassignments, {"moved": [0, 1]}) == {name: moving}
    assert await call(python.list_partition_reassignments, {"other": [0]}) == {}

    cancelled = await call(python.alter_partition_reassignments, {name: None, other: None})
    assert cancelled == {name: None, other: NoReassignmentInProgressError}

    async def ended() -> bool:
        return not await call(python.list_partition_reassignments)

    await eventually(ended, deadline_s=WAIT_S)
    (described,) = await admin.describe_topics(["moved"])
    assert described.partitions[0].replicas == (1, 2)


async def test_a_small_partition_moves_to_its_new_replicas(admin: Admin, python: KafkaAdminClient) -> None:
    await create(admin, "small", (1, 2))
    name = KafkaPartition("small", 0)
    assert await call(python.alter_partition_reassignments, {name: [3, 2]}) == {name: None}

    async def moved() -> bool:
        (described,) = await admin.describe_topics(["small"])
        (partition,) = described.partitions
        return partition.replicas == (3, 2) and partition.leader == 3

    await eventually(moved, deadline_s=WAIT_S)


async def elect(librdkafka: AdminClient, kind: ElectionType, topic: str, *partitions: int) -> dict[int, int]:
    """Error codes by partition."""
    named = [LibrdkafkaPartition(topic, number) for number in partitions]
    found = await call(librdkafka.elect_leaders(kind, named).result, WAIT_S)
    return {name.partition: 0 if error is None else error.code() for name, error in found.items()}


async def leaders(admin: Admin, topic: str) -> list[int]:
    (described,) = await admin.describe_topics([topic])
    return [partition.leader for partition in described.partitions]


async def test_preferred_leaders_are_elected(
    cluster: LocalCluster, admin: Admin, librdkafka: AdminClient
) -> None:
    """By a handover. The leader that hands over stays until then."""
    await create(admin, "led", (2, 1), (1, 2))
    await cluster.stop_broker(2)
    await cluster.start_broker(2)
    assert await leaders(admin, "led") == [1, 1]

    async def elected() -> bool:
        found = await elect(librdkafka, ElectionType.PREFERRED, "led", 0, 1, 2)
        first = found.pop(0)
        assert found == {1: ErrorCode.ELECTION_NOT_NEEDED, 2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert first in (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)  # it is not in sync yet
        return first == 0

    await eventually(elected, deadline_s=WAIT_S)
    assert await leaders(admin, "led") == [2, 1]
    everywhere = await call(librdkafka.elect_leaders(ElectionType.PREFERRED, None).result, WAIT_S)
    assert LibrdkafkaPartition("led", 0) not in everywhere, "only partitions with another leader"


async def test_an_unclean_election_gives_a_partition_a_leader_that_lost_all_in_sync(
    cluster: LocalCluster, admin: Admin, librdkafka: AdminClient
) -> None:
    """CORRECTNESS E2: only an administrator allows it, and only where no replica may lead without a loss."""
    await create(admin, "lost", (2, 3))
    assert await elect(librdkafka, ElectionType.UNCLEAN, "lost", 0) == {0: ErrorCode.ELECTION_NOT_NEEDED}
    await cluster.stop_broker(3)
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("lost", b"x")
    await cluster.kill_broker(2)

    async def leaderless() -> bool:
        return await leaders(admin, "lost") == [-1]

    await eventually(leaderless, deadline_s=WAIT_S)
    eligible = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert await elect(librdkafka, ElectionType.UNCLEAN, "lost", 0) == {0: eligible}
    await cluster.start_broker(3)

    async def elected() -> bool:
        (error,) = (await elect(librdkafka, ElectionType.UNCLEAN, "lost", 0)).values()
        assert error in (0, eligible)  # it has not said yet what its log has
        return error == 0

    async def led() -> bool:
        return await leaders(admin, "lost") == [3]

    await eventually(elected, deadline_s=WAIT_S)
    await eventually(led, deadline_s=WAIT_S)  # brokers do not learn of an election at once
    await cluster.start_broker(2)
