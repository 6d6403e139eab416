"""What a running stream does while there is nothing to read: it tells a group how far it is, and waits for
brokers. With a real Spark and a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from strandline import Admin, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.pipeline.writing.sink import StreamWriter, stream_writer
from strandline.pipeline.writing.task import LOOK_S_MAX
from tests.conftest import ClusterFactory
from tests.integration.pipeline.source_world import World
from tests.integration.support.harness import FAULT_SETTINGS
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DONE_S_MAX = 120
TRIES_S = 8
"""Longer than three tries, at which a stream ended."""
CLOCK = SystemClock()
BROKER = 1


@pytest.fixture(scope="module")
async def world(
    make_module_cluster: ClusterFactory, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    cluster = await make_module_cluster(brokers=1, broker_settings=FAULT_SETTINGS)
    yield World(cluster, spark, tmp_path_factory.mktemp("waits"))


async def topic_of(world: World, records: int) -> str:
    topic = await world.topic(replicas=1)
    await world.fill(topic, [b"%d" % number for number in range(records)])
    return topic


async def committed(world: World, group: str, topic: str) -> int | None:
    async with Admin(world.cluster.bootstrap) as admin:
        found = (await admin.group_offsets(group)).get(TopicPartition(topic, 0))
        return None if found is None else found.offset


async def test_the_last_batch_of_a_stream_is_reported_too(world: World, tmp_path: Path) -> None:
    """The group never reached the end of the log: Spark tells a source of a batch only with the next one."""
    topic, group = await topic_of(world, 10), tmp_path.name
    stream = world.stream(subscribe=topic, startingOffsets="earliest", commitGroup=group)
    await asyncio.to_thread(world.run, stream, "now")
    assert await committed(world, group, topic) == 10, "of a stream that has ended"
    query = await asyncio.to_thread(world.going, stream, "now")
    try:
        await world.fill(topic, [b"more"] * 5)

        async def all_committed() -> bool:
            return await committed(world, group, topic) == 15

        await eventually(all_committed, deadline_s=DONE_S_MAX, what="an idle stream has no lag")
    finally:
        await asyncio.to_thread(query.stop)


async def test_a_batch_that_spark_may_run_again_is_not_reported(world: World, tmp_path: Path) -> None:
    topic, group = await topic_of(world, 10), tmp_path.name
    stream = world.stream(
        subscribe=topic, startingOffsets="earliest", commitGroup=group, maxOffsetsPerTrigger="4"
    )

    def fail_later(batch: DataFrame, number: int) -> None:
        if number == 1:
            raise ValueError("the sink is broken")

    with pytest.raises(StreamingQueryException, match="the sink is broken"):
        await asyncio.to_thread(lambda: world.run(stream, "fails", each=fail_later))
    assert await committed(world, group, topic) == 4
    await asyncio.to_thread(world.run, stream, "fails")
    assert await committed(world, group, topic) == 10


async def test_the_driver_of_a_stream_that_writes_waits_as_its_tasks_do(world: World) -> None:
    """Before each batch it looks at the topic, and gave that ten seconds."""
    topic = await topic_of(world, 1)
    schema = StructType([StructField("value", BinaryType())])
    given = {"bootstrap": world.cluster.bootstrap, "topic": topic}
    await world.cluster.kill_broker(BROKER)
    async with asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(asyncio.to_thread(stream_writer, schema, given, False))
        until = CLOCK.monotonic() + LOOK_S_MAX + 3
        await eventually(lambda: CLOCK.monotonic() > until or looking.done(), deadline_s=60, what="it waits")
        waited = not looking.done()
        await world.cluster.start_broker(BROKER)
    assert waited
    writer = looking.result()
    assert isinstance(writer, StreamWriter)
    assert writer._sink.topics[topic].partitions == 1


async def test_a_stream_outlives_its_only_broker_and_can_be_stopped_without_it(world: World) -> None:
    topic = await topic_of(world, 3)
    stream = world.stream(subscribe=topic, startingOffsets="earliest")
    query = await asyncio.to_thread(world.going, stream, "waits")

    async def out_of_reach() -> None:
        await world.cluster.kill_broker(BROKER)
        until = CLOCK.monotonic() + TRIES_S
        await eventually(
            lambda: CLOCK.monotonic() > until or not query.isActive, deadline_s=60, what="it waits"
        )
        assert query.isActive, query.exception()

    try:
        await out_of_reach()
        await world.cluster.start_broker(BROKER)
        await world.fill(topic, [b"more"] * 4)

        async def read_all() -> bool:
            return len(await asyncio.to_thread(world.written, "waits")) == 7

        await eventually(read_all, deadline_s=DONE_S_MAX, what="the stream goes on")
        await out_of_reach()
        async with asyncio.timeout(60):
            await asyncio.to_thread(query.stop)
    finally:
        await asyncio.to_thread(query.stop)
