"""An offset of a stream, a task or a sink belongs to its topic, with a real Spark and a real cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from strandline import Admin
from strandline.client.admin.topics import PartitionDescription
from strandline.errors import UnknownTopicId
from strandline.pipeline.core.options import source_options
from strandline.pipeline.core.sink_options import sink_options
from strandline.pipeline.errors import DataLost
from strandline.pipeline.reading.batch_source import BatchReader, RangePartition
from strandline.pipeline.reading.stream_source import StreamReader
from strandline.pipeline.writing.exactly_once import TopicFacts
from strandline.pipeline.writing.row_buffer import Checks, RowBuffer
from strandline.pipeline.writing.task import Piece, append_rows, look_up
from tests.conftest import ClusterFactory
from tests.integration.pipeline.source_world import World
from tests.integration.support.harness import FAULT_SETTINGS
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
async def world(
    make_module_cluster: ClusterFactory, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> World:
    cluster = await make_module_cluster(brokers=3, broker_settings=FAULT_SETTINGS)
    return World(cluster, spark, tmp_path_factory.mktemp("identity"))


async def made_anew(world: World, topic: str) -> None:
    async with Admin(world.cluster.bootstrap) as admin:
        await admin.delete_topics([topic])

        async def gone() -> bool:
            return topic not in await admin.list_topics()

        await eventually(gone, what="the topic is gone")
    await world.topic(name=topic)


def values(count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(count)]


async def test_a_stream_that_continues_with_another_topic_is_told_so(world: World, tmp_path: Path) -> None:
    """(CORRECTNESS P3) It said that the first topic no longer exists."""
    first, second, name = await world.topic(), await world.topic(), tmp_path.name
    await world.fill(first, values(5))
    await world.fill(second, values(7))
    stream = partial(world.stream, startingOffsets="earliest")
    await asyncio.to_thread(world.run, stream(subscribe=first), name)
    why = f"the checkpoint has read {first}-0, which subscribe = {second} leaves out: name it too, or give"
    with pytest.raises(StreamingQueryException, match=why):
        await asyncio.to_thread(world.run, stream(subscribe=second), name)
    await asyncio.to_thread(world.run, stream(subscribe=second, failOnDataLoss="false"), name)
    written = await asyncio.to_thread(world.written, name)
    assert [(row.topic, row.offset) for row in sorted(written)] == sorted(
        [(first, offset) for offset in range(5)] + [(second, offset) for offset in range(7)]
    )


async def test_ranges_that_were_planned_on_a_topic_are_not_read_from_another_of_its_name(
    world: World,
) -> None:
    """(CORRECTNESS P3) The new topic has more records than the ranges."""
    topic = await world.topic()
    await world.fill(topic, values(10))
    reader = BatchReader(
        source_options({"bootstrap": world.cluster.bootstrap, "subscribe": topic}, stream=False)
    )
    (planned,) = await asyncio.to_thread(reader.partitions)
    await made_anew(world, topic)
    await world.fill(topic, values(50))
    with pytest.raises(DataLost, match=f"{topic}-0 has lost from offset 0 on: .* another one has its name"):
        await asyncio.to_thread(lambda: list(reader.read(planned)))


async def test_a_batch_is_written_to_one_topic_though_another_gets_its_name_meanwhile(world: World) -> None:
    """(CORRECTNESS P1) The new topic would lack the rows of the tasks that were done before, without a word.
    The repeat of the batch, as after a restart of the query, has all of them."""
    topic, query = await world.topic(), "identity"
    options = sink_options({"bootstrap": world.cluster.bootstrap, "topic": topic})
    planned = {topic: await look_up(options, topic)}

    async def write(number: int, known: Mapping[str, TopicFacts]) -> None:
        with closing(RowBuffer()) as buffer:
            rows = pa.record_batch({"value": pa.array([b"%d of %d" % (row, number) for row in range(5)])})
            checks = Checks(topic, lambda name: known[name], "a test")
            checks.check(rows)
            buffer.add(rows)
            await append_rows(buffer, options, checks.topics, Piece(query, 0, number))

    await write(0, planned)
    await made_anew(world, topic)
    with pytest.raises(UnknownTopicId, match=f"{topic}-0 is not the topic that this batch is written to: .*"):
        await write(1, planned)
    assert await world.rows(topic) == []
    again = {topic: await look_up(options, topic)}
    await write(0, again)
    await write(1, again)
    assert sorted(row.value or b"" for row in await world.rows(topic)) == sorted(
        b"%d of %d" % (row, number) for row in range(5) for number in range(2)
    )


async def test_a_stream_is_told_of_a_log_that_was_cut_and_has_grown_again(world: World) -> None:
    """(CORRECTNESS P3) An unclean election: other records have the offsets of those that were read."""
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    topic = await world.topic(replicas=2, config=config)
    await world.fill(topic, values(5))
    given = {"bootstrap": world.cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    reader = StreamReader(source_options(given, stream=True))
    lenient = StreamReader(source_options({**given, "failOnDataLoss": "false"}, stream=True))

    async def partition() -> PartitionDescription:
        async with Admin(world.cluster.bootstrap) as admin:
            (described,) = await admin.describe_topics([topic])
            return described.partitions[0]

    before = await partition()
    (follower,) = set(before.replicas) - {before.leader}
    down = []
    try:
        down.append(follower)
        await world.cluster.kill_broker(follower)

        async def alone() -> bool:
            return (await partition()).isr == (before.leader,)

        await eventually(alone, deadline_s=60, what="the follower is out of the ISR")
        await world.fill(topic, values(5))
        start = await asyncio.to_thread(reader.initialOffset)
        read = await asyncio.to_thread(reader.latestOffset, start, ReadAllAvailable())
        assert read[topic] == {"0": 10}
        down.append(before.leader)
        await world.cluster.kill_broker(before.leader)
        await world.cluster.start_broker(follower)
        down.remove(follower)

        async def led() -> bool:
            return (await partition()).leader == follower

        await eventually(led, deadline_s=60, what="the follower leads, with a loss")
        await world.fill(topic, values(20))
        why = f"{topic}-0 has lost offsets 5 to 9: an election with a loss has cut the log there"
        with pytest.raises(DataLost, match=why):
            await asyncio.to_thread(reader.latestOffset, read, ReadAllAvailable())
        end = await asyncio.to_thread(lenient.latestOffset, read, ReadAllAvailable())
        (planned,) = await asyncio.to_thread(lenient.partitions, read, end)
        assert isinstance(planned, RangePartition)
        assert (planned.value.start, planned.value.end) == (5, 25)
    finally:
        await asyncio.to_thread(reader.stop)
        await asyncio.to_thread(lenient.stop)
        for broker in down:
            await world.cluster.start_broker(broker)


async def test_offsets_have_the_epochs_that_brokers_know_over_changes_of_leaders(world: World) -> None:
    topic = await world.topic()
    await world.fill(topic, values(10))
    given = {"bootstrap": world.cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    reader = StreamReader(source_options(given, stream=True))

    async def next_end(start: dict[str, Any]) -> dict[str, Any]:
        end = await asyncio.to_thread(reader.latestOffset, start, ReadAllAvailable())
        assert json.loads(json.dumps(end)) == end
        return end

    async def leader() -> tuple[int, int]:
        async with Admin(world.cluster.bootstrap) as admin:
            (described,) = await admin.describe_topics([topic])
            return described.partitions[0].leader, described.partitions[0].leader_epoch

    try:
        first = await next_end(await asyncio.to_thread(reader.initialOffset))
        broker, epoch = await leader()
        assert first["@epochs"] == {topic: {"0": epoch}}
        await world.cluster.kill_broker(broker)

        async def moved() -> bool:
            return (await leader())[0] not in (broker, -1)

        await eventually(moved, deadline_s=60, what="another broker leads")
        assert await next_end(first) == first, "a new leader alone cuts nothing"
        await world.fill(topic, values(3))
        second = await next_end(first)
        assert (second[topic], second["@epochs"]) == ({"0": 13}, {topic: {"0": (await leader())[1]}})
        assert second["@epochs"] != first["@epochs"]
        (planned,) = await asyncio.to_thread(reader.partitions, first, second)
        assert (
            sum(batch.num_rows for batch in await asyncio.to_thread(lambda: list(reader.read(planned)))) == 3
        )
    finally:
        await asyncio.to_thread(reader.stop)
        await world.cluster.start_broker(broker)
