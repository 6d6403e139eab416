"""Alterations that are only tried, and deletions of a topic that is meant by its id."""

from __future__ import annotations

import pytest

from strandline import Admin
from strandline.errors import InvalidPartitions, UnknownTopicOrPartition
from strandline.testing import MemoryCluster
from tests.waiting import eventually


@pytest.mark.strandline(brokers=1)
async def test_an_alteration_that_is_only_validated_changes_nothing(memory_cluster: MemoryCluster) -> None:
    await memory_cluster.create_topic("orders", partitions=2)
    async with memory_cluster.admin() as admin:
        await admin.alter_topic("orders", set={"retention.ms": "5"}, partitions=3, validate_only=True)
        with pytest.raises(InvalidPartitions):
            await admin.alter_topic("orders", partitions=1, validate_only=True)
        (topic,) = await admin.describe_topics(["orders"])
    assert topic.config == {} and len(topic.partitions) == 2


@pytest.mark.strandline(brokers=1)
async def test_a_deletion_by_id_spares_a_topic_that_was_created_anew(memory_cluster: MemoryCluster) -> None:
    async with memory_cluster.admin() as admin:
        old = await admin.create_topic("orders")
        await admin.delete_topics(["orders"])
        new = await admin.create_topic("orders")
        with pytest.raises(UnknownTopicOrPartition):
            await admin.delete_topics({"orders": old})
        (topic,) = await admin.describe_topics(["orders"])
        assert topic.topic_id == new
        await admin.delete_topics({"orders": new})
        await eventually(lambda: _is_gone(admin), what="the topic is deleted")


async def _is_gone(admin: Admin) -> bool:
    return "orders" not in await admin.list_topics()
