"""Alterations that are only tried or make no sense, and deletions of a topic that is meant by its id."""

from __future__ import annotations

import pytest

from strandline import Admin
from strandline.errors import InvalidPartitions, InvalidRequest, UnknownTopicOrPartition
from strandline.ids import TopicPartition
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


@pytest.mark.strandline(brokers=1)
async def test_a_move_is_refused_whose_request_contradicts_itself(memory_cluster: MemoryCluster) -> None:
    """Without a deadline nothing would ever take it back."""
    await memory_cluster.create_topic("orders")
    moves = {TopicPartition("orders", 0): [1]}
    async with memory_cluster.admin() as admin:
        with pytest.raises(InvalidRequest, match="timeout_ms = 0 is none"):
            await admin.reassign(moves, timeout_ms=0, cancel_at_deadline=True)
        with pytest.raises(InvalidRequest, match="broker = 1 is named twice"):
            await admin.plan_balance(brokers=[1, 1])


async def _is_gone(admin: Admin) -> bool:
    return "orders" not in await admin.list_topics()
