"""Administrators with the tools of Kafka's clients look at groups, and change them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import confluent_kafka
import kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka.admin import AdminClient
from kafka.admin import MemberToRemove
from kafka.errors import GroupSubscribedToTopicError
from kafka.structs import OffsetAndMetadata

from strandline import Admin
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.kafka.support.members import KINDS, joined
from tests.integration.support.harness import FAULT_SETTINGS
from tests.waiting import eventually

ALL = frozenset(range(3))
OWNS_S_MAX = 20.0


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=3, broker_settings=FAULT_SETTINGS, kafka=True)


@asynccontextmanager
async def member_of(cluster: LocalCluster, group: str) -> AsyncIterator[None]:
    """A group with one member, and a topic of the same name."""
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(group, partitions=len(ALL), replication_factor=3)
    member = KINDS["librdkafka-range"](cluster.kafka_bootstrap, group, group)
    async with joined(member):
        await eventually(lambda: member.owned == ALL, deadline_s=OWNS_S_MAX)
        yield


async def offsets(cluster: LocalCluster, group: str) -> dict[int, int]:
    """As strandline's own administrator finds them."""
    async with Admin(cluster.bootstrap) as admin:
        return {name.partition: found.offset for name, found in (await admin.group_offsets(group)).items()}


async def set_offsets(cluster: LocalCluster, group: str, topic: str) -> None:
    """Of a group without members, by confluent-kafka."""
    partitions = [confluent_kafka.TopicPartition(topic, number, number + 1) for number in ALL]
    await asyncio.to_thread(alter_by_librdkafka, cluster.kafka_bootstrap, group, partitions)


def librdkafka(bootstrap: str) -> Any:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def alter_by_librdkafka(bootstrap: str, group: str, partitions: list[Any]) -> None:
    asked = confluent_kafka.ConsumerGroupTopicPartitions(group, partitions)
    admin = librdkafka(bootstrap)
    (future,) = admin.alter_consumer_group_offsets([asked]).values()
    assert all(each.error is None for each in future.result(OWNS_S_MAX).topic_partitions)


async def test_librdkafka_lists_and_describes_groups(cluster: LocalCluster) -> None:
    group = "librdkafka-lists-and-describes-groups"

    def look() -> None:
        admin = librdkafka(cluster.kafka_bootstrap)
        listed = admin.list_consumer_groups().result(OWNS_S_MAX)
        assert not listed.errors
        (found,) = [each for each in listed.valid if each.group_id == group]
        assert found.state == confluent_kafka.ConsumerGroupState.STABLE
        empty = {confluent_kafka.ConsumerGroupState.EMPTY}
        listed = admin.list_consumer_groups(states=empty).result(OWNS_S_MAX)
        assert group not in [each.group_id for each in listed.valid]
        (future,) = admin.describe_consumer_groups([group]).values()
        described = future.result(OWNS_S_MAX)
        assert (described.state, described.partition_assignor) == (found.state, "range")
        (member,) = described.members
        assert (member.client_id, member.host) == ("rdkafka", "127.0.0.1")
        assert {each.partition for each in member.assignment.topic_partitions} == ALL

    async with member_of(cluster, group):
        await asyncio.to_thread(look)


async def test_librdkafka_changes_offsets_and_deletes_groups(cluster: LocalCluster) -> None:
    """A group with members is refused both."""
    group = "librdkafka-changes-offsets-and-deletes-groups"

    def change(name: str) -> tuple[dict[int, int], str | None]:
        admin = librdkafka(cluster.kafka_bootstrap)
        asked = confluent_kafka.ConsumerGroupTopicPartitions(name)
        (future,) = admin.list_consumer_group_offsets([asked]).values()
        found = {each.partition: each.offset for each in future.result(OWNS_S_MAX).topic_partitions}
        (deleted,) = admin.delete_consumer_groups([name]).values()
        refused = deleted.exception(OWNS_S_MAX)
        return found, None if refused is None else refused.args[0].name()

    async with member_of(cluster, group):
        assert await asyncio.to_thread(change, group) == ({}, "NON_EMPTY_GROUP")
        other = f"{group}-other"
        await set_offsets(cluster, other, group)
        assert await asyncio.to_thread(change, other) == ({0: 1, 1: 2, 2: 3}, None)
        assert await offsets(cluster, other) == {}
        assert await asyncio.to_thread(change, other) == ({}, "GROUP_ID_NOT_FOUND")


async def test_kafka_python_lists_and_describes_groups(cluster: LocalCluster) -> None:
    group = "kafka-python-lists-and-describes-groups"

    def look() -> None:
        admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap.split(","))
        try:
            listed = {each["group_id"]: each for each in admin.list_groups()}
            assert (listed[group]["protocol_type"], listed[group]["group_state"]) == ("consumer", "Stable")
            described = admin.describe_groups([group])[group]
            assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
            (member,) = described["members"]
            assert member["member_assignment"]["assigned_partitions"] == [
                {"topic": group, "partitions": sorted(ALL)}
            ]
        finally:
            admin.close()

    async with member_of(cluster, group):
        await asyncio.to_thread(look)


async def test_kafka_python_removes_members(cluster: LocalCluster) -> None:
    """A member that reads the topic keeps its offsets from being deleted. It joins again, as another one."""
    group = "kafka-python-removes-members"

    def remove() -> None:
        admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap.split(","))
        try:
            kept = admin.delete_group_offsets(group, [kafka.TopicPartition(group, 0)])
            assert {error.errno for error in kept.values()} == {GroupSubscribedToTopicError.errno}
            members = [each["member_id"] for each in admin.describe_groups([group])[group]["members"]]
            asked = [MemberToRemove(member_id=each) for each in members]
            removed = admin.remove_group_members(group, asked)
            assert [error.errno for error in removed.values()] == [0]
            left = [each["member_id"] for each in admin.describe_groups([group])[group]["members"]]
            assert set(left).isdisjoint(members)
        finally:
            admin.close()

    async with member_of(cluster, group):
        await asyncio.to_thread(remove)


async def test_kafka_python_changes_and_deletes_offsets(cluster: LocalCluster) -> None:
    """Of a group whose member has left."""
    group = "kafka-python-changes-and-deletes-offsets"
    names = [kafka.TopicPartition(group, number) for number in sorted(ALL)]

    def change() -> None:
        admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap.split(","))
        try:
            altered = admin.alter_group_offsets(group, {name: OffsetAndMetadata(7, "", -1) for name in names})
            assert {error.errno for error in altered.values()} == {0}
            found = admin.list_group_offsets({group: None, "nowhere": None})
            assert {name: each.offset for name, each in found[group].items()} == dict.fromkeys(names, 7)
            assert found["nowhere"] == {}
            deleted = admin.delete_group_offsets(group, names[:1])
            assert {error.errno for error in deleted.values()} == {0}
        finally:
            admin.close()

    async with member_of(cluster, group):
        pass
    await asyncio.to_thread(change)
    assert await offsets(cluster, group) == {1: 7, 2: 7}


async def test_aiokafka_looks_at_groups(cluster: LocalCluster) -> None:
    group = "aiokafka-looks-at-groups"
    async with member_of(cluster, group):
        other = f"{group}-other"
        await set_offsets(cluster, other, group)
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap)
        await admin.start()
        try:
            assert (group, "consumer") in await admin.list_consumer_groups()
            (described,) = await admin.describe_consumer_groups([group])
            ((_, found, state, *_),) = described.groups
            assert (found, state) == (group, "Stable")
            committed = await admin.list_consumer_group_offsets(other)
            assert {name.partition: each.offset for name, each in committed.items()} == {0: 1, 1: 2, 2: 3}
        finally:
            await admin.close()
