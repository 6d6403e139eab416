"""Whoever stops gives everything up in order: committed, told, and read on by others (docs/groups.md)."""

from __future__ import annotations

import asyncio

import pytest

from strandline import Admin, Consumer, LocalCluster, RebalanceListener, TopicPartition
from strandline.errors import InvalidRequest
from tests.integration.group_members import GROUP_SETTINGS, Heard, new_group, new_topic, write

WAIT_MS = 10_000


async def offsets(cluster: LocalCluster, group: str) -> dict[TopicPartition, int]:
    """What the group has committed."""
    async with Admin(cluster.bootstrap) as admin:
        return {name: entry.offset for name, entry in (await admin.group_offsets(group)).items()}


async def test_two_stops_at_once_are_one(cluster: LocalCluster) -> None:
    """The second waits for the first: all callbacks, the commit, the departure, and no error."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 3)
    group, heard = new_group(), Heard()
    consumer = Consumer(cluster.bootstrap, group_id=group, **GROUP_SETTINGS)
    await consumer.start()
    consumer.subscribe([topic], listener=heard)
    assert [(await consumer.getone()).offset for _ in range(3)] == [0, 1, 2]
    await consumer.commit()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(consumer.stop())
    assert heard.kinds() == ["assigned", "revoked"]
    assert await offsets(cluster, group) == {TopicPartition(topic, 0): 3}
    async with Admin(cluster.bootstrap) as admin:
        assert (await admin.describe_group(group)).group.state == "Empty"


async def test_a_stop_of_another_task_lets_the_reader_say_that_it_is_done(cluster: LocalCluster) -> None:
    """The reader closes in peace while a close is under way: what it holds is done, and committed."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 1)
    group = new_group()
    async with (
        asyncio.TaskGroup() as tasks,
        Consumer(cluster.bootstrap, group_id=group, **GROUP_SETTINGS) as consumer,
    ):
        consumer.subscribe([topic])
        _ = await consumer.getone()
        tasks.create_task(consumer.stop())
        await asyncio.sleep(0)
    assert await offsets(cluster, group) == {TopicPartition(topic, 0): 1}


@pytest.mark.parametrize("call", ["getone", "getmany", "getbatches"])
async def test_a_listener_cannot_ask_its_consumer_for_records(cluster: LocalCluster, call: str) -> None:
    """None can come before it returns: it is told so, in a task that it waits for too; all goes on."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 1)
    group = new_group()

    class Asks(RebalanceListener):
        async def on_assigned(self, added: set[TopicPartition]) -> None:
            with pytest.raises(InvalidRequest, match="cannot ask its consumer"):
                await getattr(consumer, call)()
            await asyncio.wait_for(getattr(consumer, call)(), 60)

    async with Consumer(cluster.bootstrap, group_id=group, **GROUP_SETTINGS) as consumer:
        consumer.subscribe([topic], listener=Asks())
        with pytest.raises(InvalidRequest, match="cannot ask its consumer"):
            _ = await consumer.getone()
        assert (await consumer.getone()).offset == 0


async def test_a_close_does_not_wait_for_ever_for_a_listener(cluster: LocalCluster) -> None:
    """G10: one that hangs, and one that waits for what was cancelled, cost the others nothing."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 1)
    group, calls = new_group(), []

    class Hangs(RebalanceListener):
        async def on_assigned(self, added: set[TopicPartition]) -> None:
            calls.append("assigned")
            raise asyncio.CancelledError

        async def on_revoked(self, removed: set[TopicPartition]) -> None:
            calls.append("revoked")
            await asyncio.Event().wait()

    settings = {**GROUP_SETTINGS, "max_poll_interval_ms": 1000}
    async with Consumer(cluster.bootstrap, group_id=group, **settings) as consumer:
        consumer.subscribe([topic], listener=Hangs())
        with pytest.raises(RuntimeError, match="waited for what was cancelled"):
            _ = await consumer.getone()
        assert (await consumer.getone()).offset == 0
    assert calls == ["assigned", "revoked"]
    assert await offsets(cluster, group) == {TopicPartition(topic, 0): 1}
