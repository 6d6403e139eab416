"""Administrators with the libraries of Kafka's clients. What a broker decides, tests/broker/kafka/admin and
tests/broker/kafka/groups hold; here each library sends its requests, and reads the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import confluent_kafka
import kafka.admin
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from confluent_kafka import ElectionType, KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.errors import (
    GroupSubscribedToTopicError,
    InvalidReplicationAssignmentError,
    NotLeaderForPartitionError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata

from strandline import Admin
from strandline import NewTopic as OwnTopic
from strandline import TopicPartition as OwnPartition
from strandline.client.admin.topics import TopicDescription
from strandline.errors import ErrorCode
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.kafka.support.kcat import kcat, needs_kcat
from tests.integration.kafka.support.mixed_group import CONFLUENT, MixedGroup
from tests.integration.support.harness import FAULT_SETTINGS
from tests.waiting import eventually

T = TypeVar("T")
WAIT_S = 30.0
PARTITIONS = frozenset(range(3))


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    settings = {**FAULT_SETTINGS, "num_partitions": 4}
    return await make_module_cluster(brokers=3, broker_settings=settings, kafka=True)


@pytest.fixture(scope="module")
async def admin(cluster: LocalCluster) -> AsyncIterator[Admin]:
    """strandline's own."""
    async with Admin(cluster.bootstrap) as admin:
        yield admin


@pytest.fixture(scope="module")
def librdkafka(cluster: LocalCluster) -> Any:
    return AdminClient({"bootstrap.servers": cluster.kafka_bootstrap, "log_level": 0})


@pytest.fixture
async def python(cluster: LocalCluster) -> AsyncIterator[KafkaAdminClient]:
    client = await call(KafkaAdminClient, bootstrap_servers=cluster.kafka_bootstrap.split(","))
    yield client
    await call(client.close)


@asynccontextmanager
async def aiokafka(cluster: LocalCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def call(function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Runs a client that blocks."""
    return await asyncio.to_thread(function, *arguments, **named)


async def outcome(future: Future[Any]) -> Any:
    """What librdkafka's request returned, or the error that it has for it."""
    try:
        return await call(future.result, WAIT_S)
    except KafkaException as refused:
        return refused.args[0]


async def codes(futures: dict[Any, Future[Any]]) -> dict[str, int]:
    """Errors by name."""
    found = {name: await outcome(future) for name, future in futures.items()}
    return {name: each.code() if isinstance(each, KafkaError) else 0 for name, each in found.items()}


async def described(admin: Admin, topic: str) -> TopicDescription:
    (found,) = await admin.describe_topics([topic])
    return found


async def grew(admin: Admin, topic: str, partitions: int) -> None:
    """Returns once the broker that is asked has read of the new partitions."""

    async def grown() -> bool:
        return len((await described(admin, topic)).partitions) == partitions

    await eventually(grown, deadline_s=WAIT_S)


# --- topics -----------------------------------------------------------------------------------


async def test_librdkafka_creates_grows_and_deletes_topics(admin: Admin, librdkafka: AdminClient) -> None:
    new = [
        NewTopic("sized", 3, 2, config={"retention.ms": "86400000"}),
        NewTopic("placed", 2, replica_assignment=[[1, 2], [3, 1]]),
        NewTopic("tiered", 1, 1, config={"remote.storage.enable": "true"}),
    ]
    created = librdkafka.create_topics(new)
    assert await codes(created) == {"sized": 0, "placed": 0, "tiered": KafkaError.INVALID_CONFIG}
    assert "There is no tiered storage" in (await outcome(created["tiered"])).str()
    assert [each.replicas for each in (await described(admin, "placed")).partitions] == [(1, 2), (3, 1)]
    grown = librdkafka.create_partitions([NewPartitions("sized", 5), NewPartitions("placed", 3, [[2, 3]])])
    assert await codes(grown) == {"sized": 0, "placed": 0}
    await grew(admin, "sized", 5)
    deleted = await codes(librdkafka.delete_topics(["sized", "placed", "never"]))
    assert deleted == {"sized": 0, "placed": 0, "never": KafkaError.UNKNOWN_TOPIC_OR_PART}


async def test_librdkafka_gives_groups_configs(admin: Admin, librdkafka: AdminClient) -> None:
    """KIP-848: set, described with where they come from, refused by the brokers' bounds, and deleted."""

    async def change(value: str | None) -> Any:
        kind = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry("consumer.session.timeout.ms", value, incremental_operation=kind)
        group = ConfigResource(ResourceType.GROUP, "timed", incremental_configs=[entry])
        (future,) = librdkafka.incremental_alter_configs([group]).values()
        return await outcome(future)

    assert await change("50000") is None
    (asked,) = librdkafka.describe_configs([ConfigResource(ResourceType.GROUP, "timed")]).values()
    found = (await outcome(asked))["consumer.session.timeout.ms"]
    assert (found.value, found.source) == ("50000", ConfigSource.GROUP_CONFIG.value)
    assert await admin.describe_group_configs() == {"timed": {"consumer.session.timeout.ms": "50000"}}
    assert (await change("1")).code() == KafkaError.INVALID_CONFIG
    assert await change(None) is None
    assert await admin.describe_group_configs() == {}


async def test_kafka_python_administers_topics(admin: Admin, python: KafkaAdminClient) -> None:
    await call(python.create_topics, [kafka.admin.NewTopic("python", 2, 3)])
    assert len((await described(admin, "python")).partitions) == 2
    await call(python.create_partitions, {"python": kafka.admin.NewPartitions(3)})
    await grew(admin, "python", 3)
    kind = kafka.admin.ConfigResourceType.TOPIC
    changed = kafka.admin.ConfigResource(kind, "python", {"retention.ms": "80000"})
    await call(python.alter_configs, [changed])
    asked = kafka.admin.ConfigResource(kind, "python")
    assert "80000" in str(await call(python.describe_configs, [asked]))
    await call(python.delete_topics, ["python"])
    assert "python" not in await admin.list_topics()


async def test_aiokafka_administers_topics(cluster: LocalCluster, admin: Admin) -> None:
    async with aiokafka(cluster) as client:
        await client.create_topics([AioNewTopic("aio", 2, 3)])
        assert len((await described(admin, "aio")).partitions) == 2
        await client.create_partitions({"aio": AioNewPartitions(3)})
        await grew(admin, "aio", 3)
        kind = AioConfigResourceType.TOPIC
        await client.alter_configs([AioConfigResource(kind, "aio", {"retention.ms": "90000"})])
        assert "90000" in str(await client.describe_configs([AioConfigResource(kind, "aio")]))
        await client.delete_topics(["aio"])
    assert "aio" not in await admin.list_topics()


async def test_a_producer_has_its_topic_created(cluster: LocalCluster, admin: Admin) -> None:
    """With the settings' numbers of partitions and replicas."""
    errors: list[KafkaError | None] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.kafka_bootstrap})
    producer.produce("on-demand", b"first", on_delivery=lambda error, _: errors.append(error))
    assert await call(producer.flush, WAIT_S) == 0 and errors == [None]
    partitions = (await described(admin, "on-demand")).partitions
    assert (len(partitions), len(partitions[0].replicas)) == (4, 3)


@needs_kcat
async def test_kcat_has_its_topic_created(cluster: LocalCluster) -> None:
    of_topic = ("-b", cluster.kafka_bootstrap, "-t", "by-kcat")
    await kcat(*of_topic, "-p", "0", "-P", given="one\ntwo\n", within_s=WAIT_S)
    read = await kcat(*of_topic, "-C", "-e", "-q", within_s=WAIT_S)
    assert read.splitlines() == ["one", "two"]


# --- configs ----------------------------------------------------------------------------------


async def test_librdkafka_reads_and_changes_configs(admin: Admin, librdkafka: AdminClient) -> None:
    await admin.create_topic("configured", 1, 3, {"retention.bytes": "60000"})

    async def read(kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
        (future,) = librdkafka.describe_configs([ConfigResource(kind, name)]).values()
        found: dict[str, ConfigEntry] = await outcome(future)
        return found

    async def increment(kind: ResourceType, resource: str, name: str, value: str) -> Any:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(kind, resource, incremental_configs=[entry])
        (future,) = librdkafka.incremental_alter_configs([changed]).values()
        return await outcome(future)

    own = (await read(ResourceType.TOPIC, "configured"))["retention.bytes"]
    assert (own.value, ConfigSource(own.source)) == ("60000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert [(each.name, each.value) for each in own.synonyms.values()] == [
        ("retention.bytes", "60000"), ("log.retention.bytes", "-1"),
    ]  # fmt: skip
    assert await increment(ResourceType.TOPIC, "configured", "segment.bytes", "1048576") is None
    refused = await increment(ResourceType.TOPIC, "configured", "nonsense", "1")
    assert refused.code() == KafkaError.INVALID_CONFIG and "unknown topic config" in refused.str()
    assert (await read(ResourceType.TOPIC, "configured"))["segment.bytes"].value == "1048576"
    replaced = ConfigResource(ResourceType.TOPIC, "configured", set_config={"retention.ms": "70000"})
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        (future,) = librdkafka.alter_configs([replaced]).values()
    assert await outcome(future) is None
    found = await read(ResourceType.TOPIC, "configured")
    own_names = {
        name for name, each in found.items() if ConfigSource(each.source) == ConfigSource.DYNAMIC_TOPIC_CONFIG
    }
    assert own_names == {"retention.ms"} and found["retention.ms"].value == "70000"
    of_broker = await read(ResourceType.BROKER, "2")
    assert (of_broker["broker.id"].value, of_broker["num.partitions"].value) == ("2", "4")
    refused = await increment(ResourceType.BROKER, "2", "num.partitions", "8")
    assert refused.code() == KafkaError.INVALID_REQUEST and "restart it" in refused.str()


# --- groups -----------------------------------------------------------------------------------


@asynccontextmanager
async def member_of(cluster: LocalCluster, admin: Admin, topic: str) -> AsyncIterator[str]:
    """A group with one member that reads all of a new topic. Its name."""
    await admin.create_topic(topic, partitions=len(PARTITIONS), replication_factor=3)
    async with MixedGroup(cluster, topic, len(PARTITIONS)) as group:
        await group.settled(group.join(CONFLUENT))
        yield group.name


async def test_librdkafka_administers_groups(
    cluster: LocalCluster, admin: Admin, librdkafka: AdminClient
) -> None:
    """A group with members is not deleted."""
    wanted = [confluent_kafka.TopicPartition("grouped", number, number + 1) for number in PARTITIONS]

    def look(group: str) -> None:
        listed = librdkafka.list_consumer_groups().result(WAIT_S)
        assert not listed.errors
        (found,) = [each for each in listed.valid if each.group_id == group]
        assert found.state == confluent_kafka.ConsumerGroupState.STABLE
        (future,) = librdkafka.describe_consumer_groups([group]).values()
        group_described = future.result(WAIT_S)
        assert (group_described.state, group_described.partition_assignor) == (found.state, "range")
        (member,) = group_described.members
        assert member.host == "/127.0.0.1"
        assert {each.partition for each in member.assignment.topic_partitions} == PARTITIONS

    def change(group: str) -> None:
        asked = confluent_kafka.ConsumerGroupTopicPartitions(group, wanted)
        (altered,) = librdkafka.alter_consumer_group_offsets([asked]).values()
        assert all(each.error is None for each in altered.result(WAIT_S).topic_partitions)
        every = confluent_kafka.ConsumerGroupTopicPartitions(group)
        (listed,) = librdkafka.list_consumer_group_offsets([every]).values()
        found = {each.partition: each.offset for each in listed.result(WAIT_S).topic_partitions}
        assert found == {0: 1, 1: 2, 2: 3}

    async with member_of(cluster, admin, "grouped") as group:
        await call(look, group)
        refused = await codes(librdkafka.delete_consumer_groups([group]))
        assert refused == {group: KafkaError.NON_EMPTY_GROUP}
        await call(change, "another-group")
        assert await codes(librdkafka.delete_consumer_groups(["another-group"])) == {"another-group": 0}
    assert await admin.group_offsets("another-group") == {}


async def test_kafka_python_administers_groups(
    cluster: LocalCluster, admin: Admin, python: KafkaAdminClient
) -> None:
    """A member that reads the topic keeps its offsets from being deleted. One that is removed joins again, as
    another one."""
    names = [TopicPartition("python-grouped", number) for number in sorted(PARTITIONS)]

    def look(group: str) -> None:
        listed = {each["group_id"]: each for each in python.list_groups()}
        assert (listed[group]["protocol_type"], listed[group]["group_state"]) == ("consumer", "Stable")
        found = python.describe_groups([group])[group]
        assert (found["group_state"], found["protocol_data"]) == ("Stable", "range")
        (member,) = found["members"]
        assert member["member_assignment"]["assigned_partitions"] == [
            {"topic": "python-grouped", "partitions": sorted(PARTITIONS)}
        ]
        kept = python.delete_group_offsets(group, names[:1])
        assert {error.errno for error in kept.values()} == {GroupSubscribedToTopicError.errno}
        asked = [kafka.admin.MemberToRemove(member_id=member["member_id"])]
        assert [each.errno for each in python.remove_group_members(group, asked).values()] == [0]
        left = [each["member_id"] for each in python.describe_groups([group])[group]["members"]]
        assert member["member_id"] not in left

    def change(group: str) -> None:
        altered = python.alter_group_offsets(group, {name: OffsetAndMetadata(7, "", -1) for name in names})
        assert {error.errno for error in altered.values()} == {0}
        found = python.list_group_offsets({group: None, "nowhere": None})
        assert {name: each.offset for name, each in found[group].items()} == dict.fromkeys(names, 7)
        assert found["nowhere"] == {}
        deleted = python.delete_group_offsets(group, names[:1])
        assert {error.errno for error in deleted.values()} == {0}

    async with member_of(cluster, admin, "python-grouped") as group:
        await call(look, group)
    await call(change, group)
    found = {name.partition: each.offset for name, each in (await admin.group_offsets(group)).items()}
    assert found == {1: 7, 2: 7}


async def test_aiokafka_looks_at_groups(cluster: LocalCluster, admin: Admin) -> None:
    async with member_of(cluster, admin, "aio-grouped") as group, aiokafka(cluster) as client:
        assert (group, "consumer") in await client.list_consumer_groups()
        (answer,) = await client.describe_consumer_groups([group])
        ((_, found, state, *_),) = answer.groups
        assert (found, state) == (group, "Stable")
    wanted = {OwnPartition("aio-grouped", number): 5 for number in PARTITIONS}
    await admin.alter_group_offsets(group, wanted)
    async with aiokafka(cluster) as client:
        committed = await client.list_consumer_group_offsets(group)
    assert {name.partition: each.offset for name, each in committed.items()} == dict.fromkeys(PARTITIONS, 5)


# --- brokers and replicas ---------------------------------------------------------------------


async def test_the_cluster_is_described_with_addresses_that_clients_reach(
    cluster: LocalCluster, librdkafka: AdminClient, python: KafkaAdminClient
) -> None:
    answer = await outcome(librdkafka.describe_cluster())
    addresses = {f"{node.host}:{node.port}" for node in answer.nodes}
    assert addresses == set(cluster.kafka_bootstrap.split(","))
    found = await call(python.describe_cluster)
    assert {f"{each['host']}:{each['port']}" for each in found["brokers"]} == addresses
    assert found["cluster_id"] == answer.cluster_id
    assert found["controller_id"] in cluster.broker_ids, "a broker, which passes requests on"


async def test_librdkafka_deletes_records_and_elects_leaders(admin: Admin, librdkafka: AdminClient) -> None:
    await admin.create_topics([OwnTopic("cut", partitions=0, assignments=[(1, 2, 3)])])

    async def delete(offset: int) -> Any:
        asked = confluent_kafka.TopicPartition("cut", 0, offset)
        (future,) = librdkafka.delete_records([asked]).values()
        return await outcome(future)

    assert (await delete(-1)).low_watermark == 0
    assert (await delete(11)).code() == ErrorCode.OFFSET_OUT_OF_RANGE
    named = [confluent_kafka.TopicPartition("cut", number) for number in range(2)]
    found = await outcome(librdkafka.elect_leaders(ElectionType.PREFERRED, named))
    assert {name.partition: error.code() for name, error in found.items()} == {
        0: ErrorCode.ELECTION_NOT_NEEDED, 1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }  # fmt: skip


async def test_kafka_python_sees_and_moves_replicas(
    cluster: LocalCluster, admin: Admin, python: KafkaAdminClient
) -> None:
    await admin.create_topics([OwnTopic("held", partitions=0, assignments=[(1, 2)])])
    name, nothing = TopicPartition("held", 0), TopicPartition("held", 7)

    def write() -> None:
        producer = KafkaProducer(
            bootstrap_servers=cluster.kafka_bootstrap, acks="all", enable_idempotence=True, batch_size=0
        )
        for _ in range(3):
            producer.send("held", b"x" * 1_000, partition=0)
        producer.flush()
        producer.close()

    await call(write)
    sizes: dict[int, int] = {}
    for answer in await call(python.describe_log_dirs, ["held"]):
        (directory,) = answer["log_dirs"]
        assert directory["log_dir"] == str(cluster.data_dir(answer["broker"]))
        assert 0 < directory["usable_bytes"] <= directory["total_bytes"]
        for topic in directory["topics"]:
            (partition,) = topic["partitions"]
            sizes[answer["broker"]] = partition["partition_size"]
    assert set(sizes) == {1, 2} and all(3_000 < size < 4_000 for size in sizes.values())
    everything = await call(python.describe_log_dirs, None)
    assert [answer["broker"] for answer in everything] == cluster.broker_ids
    for broker in (None, 2):
        (producer,) = (await call(python.describe_producers, [name], broker_id=broker))[name].active_producers
        assert (producer.last_sequence, producer.producer_epoch) == (2, 0)
    async with Admin(cluster.address(3)) as at_3:
        await at_3.metadata(["held"])  # broker 3 has no replica, and knows from now on that others have
    with pytest.raises(NotLeaderForPartitionError):
        await call(python.describe_producers, [name], broker_id=3)
    with pytest.raises(UnknownTopicOrPartitionError):
        await call(python.delete_records, {nothing: 0}, partition_leader_id=1)
    refused = await call(python.alter_partition_reassignments, {name: [2, 9], nothing: [1]})
    assert refused == {name: InvalidReplicationAssignmentError, nothing: UnknownTopicOrPartitionError}
    assert await call(python.list_partition_reassignments) == {}
    assert await call(python.alter_partition_reassignments, {name: [3, 2]}) == {name: None}

    async def moved() -> bool:
        (partition,) = (await described(admin, "held")).partitions
        return partition.replicas == (3, 2) and partition.leader == 3

    await eventually(moved, deadline_s=WAIT_S)
