"""Kafka clients read and change the configs of topics, and read those of brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePatternFilter,
)
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.admin import ConfigResourceType as PythonConfigResourceType
from kafka.admin import ResourceType as PythonResourceType
from kafka.errors import SecurityDisabledError

from strandline import Admin
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    settings = {**FAULT_SETTINGS, "num_partitions": 4}
    return await make_module_cluster(brokers=3, broker_settings=settings, kafka=True)


@pytest.fixture(scope="module")
def confluent(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})


async def create(cluster: LocalCluster, topic: str, config: Mapping[str, str] | None = None) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(topic, 1, 3, config)


async def read(confluent: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    (future,) = confluent.describe_configs([ConfigResource(kind, name)]).values()
    found: dict[str, ConfigEntry] = await asyncio.wrap_future(future)
    return found


def source(config: ConfigEntry) -> ConfigSource:
    """The client has a number in the place of the enumeration that it promises."""
    return ConfigSource(config.source)


def increment(topic: str, *changes: tuple[str, AlterConfigOpType, str | None]) -> ConfigResource:
    entries = [
        ConfigEntry(name, value, incremental_operation=operation) for name, operation, value in changes
    ]
    return ConfigResource(TOPIC, topic, incremental_configs=entries)


async def altered(confluent: AdminClient, resource: ConfigResource, **options: Any) -> KafkaError | None:
    (future,) = confluent.incremental_alter_configs([resource], **options).values()
    try:
        await asyncio.wrap_future(future)
    except KafkaException as refused:
        error: KafkaError = refused.args[0]
        return error
    return None


async def own_config(cluster: LocalCluster, topic: str) -> Mapping[str, str]:
    """What differs from the defaults, as a broker has it that was not asked before."""
    async with Admin(cluster.bootstrap) as admin:
        (found,) = await admin.describe_topics([topic])
    return found.config


async def test_a_topics_configs_say_where_they_come_from(
    cluster: LocalCluster, confluent: AdminClient
) -> None:
    await create(cluster, "described", {"retention.ms": "60000"})
    found = await read(confluent, TOPIC, "described")
    own, default, fixed = found["retention.ms"], found["min.insync.replicas"], found["compression.type"]
    assert (own.value, source(own)) == ("60000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert not own.is_read_only
    assert [(each.name, each.value) for each in own.synonyms.values()] == [
        ("retention.ms", "60000"), ("log.retention.ms", "604800000"),
    ]  # fmt: skip
    assert (default.value, source(default)) == ("2", ConfigSource.DEFAULT_CONFIG)
    assert (fixed.value, fixed.is_read_only) == ("producer", True)
    assert not any(each.is_sensitive for each in found.values())


async def test_a_brokers_configs_are_its_settings_and_cannot_be_changed(
    cluster: LocalCluster, confluent: AdminClient
) -> None:
    found = await read(confluent, BROKER, "2")
    expected = {
        "broker.id": "2", "num.partitions": "4", "default.replication.factor": "3",
        "auto.create.topics.enable": "true", "inter.broker.protocol.version": "3.9",
        "log.retention.ms": "604800000", "message.max.bytes": "1048588", "min.insync.replicas": "2",
    }  # fmt: skip
    assert {name: found[name].value for name in expected} == expected
    address = str(found["advertised.listeners"].value)
    assert address.removeprefix("PLAINTEXT://") in cluster.kafka_bootstrap
    assert source(found["num.partitions"]) == ConfigSource.STATIC_BROKER_CONFIG
    assert all(each.is_read_only for each in found.values())
    entry = ConfigEntry("num.partitions", "8", incremental_operation=AlterConfigOpType.SET)
    error = await altered(confluent, ConfigResource(BROKER, "2", incremental_configs=[entry]))
    assert error is not None and error.code() == KafkaError.INVALID_REQUEST
    assert "restart it" in error.str()


async def test_confluent_kafka_changes_single_configs(cluster: LocalCluster, confluent: AdminClient) -> None:
    """A client reads at once what was written, and builds the next change on it."""
    await create(cluster, "changed", {"retention.ms": "60000", "cleanup.policy": "delete"})
    change = increment(
        "changed",
        ("segment.bytes", AlterConfigOpType.SET, "1048576"),
        ("retention.ms", AlterConfigOpType.DELETE, None),
        ("cleanup.policy", AlterConfigOpType.APPEND, "compact"),
        ("message.timestamp.type", AlterConfigOpType.SET, "CreateTime"),
    )
    before = await read(confluent, TOPIC, "changed")
    assert await altered(confluent, change, validate_only=True) is None
    assert (await read(confluent, TOPIC, "changed"))["segment.bytes"].value == before["segment.bytes"].value
    assert await altered(confluent, change) is None
    found = await read(confluent, TOPIC, "changed")
    assert found["segment.bytes"].value == "1048576"
    assert source(found["retention.ms"]) == ConfigSource.DEFAULT_CONFIG
    assert found["cleanup.policy"].value == "delete,compact"
    again = increment("changed", ("cleanup.policy", AlterConfigOpType.SUBTRACT, "delete"))
    assert await altered(confluent, again) is None
    assert (await read(confluent, TOPIC, "changed"))["cleanup.policy"].value == "compact"


@pytest.mark.parametrize("validate_only", [False, True])
async def test_a_change_that_cannot_be_is_refused_with_a_reason(
    cluster: LocalCluster, confluent: AdminClient, validate_only: bool
) -> None:
    topic = f"refused-{validate_only}"
    await create(cluster, topic)
    for name, value, reason in (
        ("min.insync.replicas", "4", "more than the replication factor"),
        ("compression.type", "gzip", "'producer' only"),
        ("nonsense", "1", "unknown topic config"),
        ("retention.ms", "-7", "greater than or equal to -1"),
    ):
        change = increment(topic, (name, AlterConfigOpType.SET, value))
        error = await altered(confluent, change, validate_only=validate_only)
        assert error is not None and error.code() == KafkaError.INVALID_CONFIG and reason in error.str()
    change = increment("never", ("retention.ms", AlterConfigOpType.SET, "1"))
    error = await altered(confluent, change, validate_only=validate_only)
    assert error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert await own_config(cluster, topic) == {}


async def test_confluent_kafka_replaces_all_configs(cluster: LocalCluster, confluent: AdminClient) -> None:
    await create(cluster, "replaced", {"retention.ms": "60000", "segment.ms": "1000"})
    wanted = ConfigResource(TOPIC, "replaced", set_config={"retention.ms": "70000"})
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        (future,) = confluent.alter_configs([wanted]).values()
    await asyncio.wrap_future(future)
    found = await read(confluent, TOPIC, "replaced")
    own = {name for name, each in found.items() if source(each) == ConfigSource.DYNAMIC_TOPIC_CONFIG}
    assert own == {"retention.ms"} and found["retention.ms"].value == "70000"


@pytest.fixture
def python(cluster: LocalCluster) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap)
    yield admin
    admin.close()


async def test_kafka_python_reads_and_changes_configs(
    cluster: LocalCluster, confluent: AdminClient, python: KafkaAdminClient
) -> None:
    await create(cluster, "python")
    resource = PythonConfigResource(PythonConfigResourceType.TOPIC, "python", {"retention.ms": "80000"})
    await asyncio.to_thread(python.alter_configs, [resource])
    assert (await read(confluent, TOPIC, "python"))["retention.ms"].value == "80000"
    asked = PythonConfigResource(PythonConfigResourceType.TOPIC, "python")
    assert "80000" in str(await asyncio.to_thread(python.describe_configs, [asked]))


@asynccontextmanager
async def aio_admin(cluster: LocalCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def test_aiokafka_reads_and_changes_configs(cluster: LocalCluster, confluent: AdminClient) -> None:
    await create(cluster, "aio")
    async with aio_admin(cluster) as admin:
        wanted = AioConfigResource(AioConfigResourceType.TOPIC, "aio", {"retention.ms": "90000"})
        await admin.alter_configs([wanted])
        assert (await read(confluent, TOPIC, "aio"))["retention.ms"].value == "90000"
        (found,) = await admin.describe_configs([AioConfigResource(AioConfigResourceType.TOPIC, "aio")])
    assert "90000" in str(found)


async def test_tools_learn_that_there_are_no_rules_of_access(python: KafkaAdminClient) -> None:
    resource = ResourcePatternFilter(PythonResourceType.ANY, None, ACLResourcePatternType.ANY)
    every = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, resource)
    with pytest.raises(SecurityDisabledError, match="no authorizer"):
        await asyncio.to_thread(python.describe_acls, every)
