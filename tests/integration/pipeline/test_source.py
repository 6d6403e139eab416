"""Topics as DataFrames and streams, with a real Spark over a real cluster that is harmed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from strandline import Admin, Producer, TopicPartition
from strandline.config.limits import KIB
from strandline.local.cluster import LocalCluster
from tests.conftest import SPARK_TIME, ClusterFactory
from tests.integration.pipeline.source_world import Row, World, rows_of
from tests.integration.support.harness import FAULT_SETTINGS
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyarrow import RecordBatch

pytestmark = SPARK_TIME

NOW_MS = 1_700_000_000_000
SMALL = {"segment.bytes": "1024"}
"""So that retention has whole segments to delete."""
PUSHED = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
async def world(
    make_module_cluster: ClusterFactory, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> World:
    settings = {**FAULT_SETTINGS, "retention_check_ms": 50}
    cluster = await make_module_cluster(brokers=3, broker_settings=settings)
    return World(cluster, spark, tmp_path_factory.mktemp("streams"))


@pytest.fixture
def name(tmp_path: Path) -> str:
    """The name of a stream that no other test has."""
    return tmp_path.name


def numbered(count: int, *, first: int = 0, size: int = 6) -> list[bytes]:
    return [b"%0*d" % (size, number) for number in range(first, first + count)]


def offsets(rows: list[Row], topic: str | None = None) -> list[tuple[int, int]]:
    return [(row.partition, row.offset) for row in rows if topic in (None, row.topic)]


# --- the same records as a consumer's -----------------------------------------------------------


async def test_batch_and_stream_have_each_record_of_a_consumer_with_all_that_belongs_to_it(
    world: World, name: str
) -> None:
    topic, empty = await world.topic(3), await world.topic(2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        async with Producer(world.cluster.bootstrap, linger_ms=5, compression=codec) as producer:
            for number in range(60):
                _ = await producer.send(
                    topic,
                    None if number % 7 == 0 else b"%d " % number * (number % 11),
                    None if number % 5 == 0 else b"k%d" % number,
                    partition=None if number % 5 else number % 3,
                    timestamp_ms=NOW_MS + number * (-1) ** number,
                    headers=[("who", codec.encode()), ("none", None), ("who", b"")][: number % 4],
                )
    await world.fill(topic, numbered(3_000), partition=1)
    there = await world.rows(topic, empty)
    assert len(there) == 3_300

    both = f"{topic},{empty}"
    assert await world.found(lambda: world.load(subscribe=both, includeHeaders="true")) == there
    cut = {"minPartitions": "7", "maxRecordsPerPartition": "500"}
    assert await world.found(lambda: world.load(subscribe=topic, includeHeaders="true", **cut)) == there
    stream = world.stream(
        subscribePattern=f"{topic}|{empty}",
        startingOffsets="earliest",
        includeHeaders="true",
        maxOffsetsPerTrigger="1700",
    )
    progress = await asyncio.to_thread(world.run, stream, name)
    assert [batch["numInputRows"] for batch in progress if batch["numInputRows"]] == [1_700, 1_600]
    assert await asyncio.to_thread(world.written, name) == there


@pytest.mark.slow
async def test_conditions_leave_the_same_rows_whether_they_are_handed_on_or_not(world: World) -> None:
    topic, other = await world.topic(3), await world.topic(1)
    async with Producer(world.cluster.bootstrap, linger_ms=5) as producer:
        for number in range(300):
            _ = await producer.send(
                topic, b"%d" % number, partition=number % 3, timestamp_ms=NOW_MS + (number * 37 % 300) * 1_000
            )
    await world.fill(other, numbered(10))
    everything = await world.rows(topic, other)

    def at(row: Row) -> int:
        return row.timestamp_ms - NOW_MS

    moment = f"timestamp_millis({NOW_MS} + 150000)"
    cases: dict[str, Callable[[Row], bool]] = {
        f"topic = '{other}'": lambda row: row.topic == other,
        "topic in ('nowhere')": lambda row: False,
        "partition = 1 and offset >= 40 and offset < 43": lambda r: r.partition == 1 and 40 <= r.offset < 43,
        "partition in (0, 2) and offset > 97": lambda row: row.partition in (0, 2) and row.offset > 97,
        "offset in (3, 50) and partition <= 1": lambda row: row.offset in (3, 50) and row.partition <= 1,
        f"timestamp >= {moment} and timestamp < {moment} + interval 20 seconds": (
            lambda row: 150_000 <= at(row) < 170_000
        ),
        f"timestamp > {moment} and topic = '{topic}'": lambda r: at(r) > 150_000 and r.topic == topic,
        f"timestamp <= {moment} or offset = 99": lambda row: at(row) <= 150_000 or row.offset == 99,
    }

    def look(condition: str) -> list[Row]:
        return rows_of(world.load(subscribe=f"{topic},{other}").where(condition))

    for condition, meant in cases.items():
        rows = await asyncio.to_thread(look, condition)
        assert rows == [row for row in everything if meant(row)], condition
    before = world.spark.conf.get(PUSHED)
    world.spark.conf.set(PUSHED, "false" if before == "true" else "true")
    try:
        rows = await asyncio.to_thread(look, " or ".join(f"({condition})" for condition in cases))
    finally:
        world.spark.conf.set(PUSHED, before or "false")
    assert rows == [row for row in everything if any(meant(row) for meant in cases.values())]


@pytest.mark.slow
@pytest.mark.parametrize("pushed", ["true", "false"])
async def test_queries_of_one_dataframe_read_the_same_records_whatever_their_conditions(
    world: World, pushed: str
) -> None:
    """Spark up to 4.3 has one plan for all of them: the conditions of one must not take rows from another."""
    topic = await world.topic(2)
    await world.fill(topic, numbered(20), partition=0)
    await world.fill(topic, numbered(5), partition=1)

    def counts(frame: DataFrame) -> list[int]:
        of_one, of_other = frame.where("partition = 1"), frame.where("partition = 0 and offset >= 12")
        both = of_one.union(of_other)
        return [each.count() for each in (of_one, frame, of_other, both, of_one, frame)]

    def look() -> tuple[list[int], list[int], int]:
        frame = world.load(subscribe=topic)
        first = counts(frame)
        asyncio.run(world.fill(topic, numbered(7), partition=1))
        return first, counts(frame), world.load(subscribe=topic).count()

    before = world.spark.conf.get(PUSHED)
    world.spark.conf.set(PUSHED, pushed)
    try:
        first, again, reloaded = await asyncio.to_thread(look)
    finally:
        world.spark.conf.set(PUSHED, before or "false")
    assert first == [5, 25, 8, 13, 5, 25]
    assert reloaded == 32
    if pushed == "false":
        assert again == first, "latest was resolved when the first one was planned"


@pytest.mark.slow
async def test_reading_begins_and_ends_at_offsets_or_times(world: World) -> None:
    topic = await world.topic(2)
    async with Producer(world.cluster.bootstrap) as producer:
        for number in range(20):
            at_ms = NOW_MS + number * 1_000
            await producer.send_and_wait(topic, b"%d" % number, partition=number % 2, timestamp_ms=at_ms)

    async def values(**options: str) -> list[int]:
        rows = await world.found(lambda: world.load(subscribe=topic, **options))
        return sorted(int(row.value or b"") for row in rows)

    of = '{{"{}": {{"0": {}, "1": {}}}}}'.format
    assert await values(startingOffsets=of(topic, 3, -2), endingOffsets=of(topic, -1, 2)) == [
        1, 3, 6, 8, 10, 12, 14, 16, 18,
    ]  # fmt: skip
    assert await values(startingTimestamp=str(NOW_MS + 4_500), endingTimestamp=str(NOW_MS + 9_000)) == [
        5, 6, 7, 8,
    ]  # fmt: skip
    by_time = {"startingOffsetsByTimestamp": of(topic, NOW_MS + 17_000, NOW_MS + 19_000)}
    assert await values(**by_time) == [18, 19]
    late = {"startingTimestamp": str(NOW_MS + 19_000)}
    with pytest.raises(PySparkException, match=f"{topic}-0: no record is as young as {NOW_MS + 19_000} ms"):
        await values(**late)
    assert await values(**late, startingOffsetsByTimestampStrategy="latest") == [19]
    with pytest.raises(PySparkException, match=f"startingOffsets says nothing of {topic}-1"):
        await values(startingOffsets=f'{{"{topic}": {{"0": 0}}}}')


# --- what goes wrong ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "nowhere"}, "UnknownTopicOrPartition: there is no topic 'nowhere'"),
        ({"startingOfsets": "latest"}, "InvalidOption: there is no option 'startingofsets': did you mean"),
        ({"subscribe": "x", "bootstrap": "127.0.0.1:1"}, "BrokerNotAvailable: no broker answered"),
    ],
)
async def test_errors_stay_readable_through_what_spark_wraps_around_them(
    world: World, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException) as failed:
        await asyncio.to_thread(lambda: world.load(**{**options, "fetchOffset.numRetries": "0"}).count())
    assert said in str(failed.value)


@pytest.mark.slow
async def test_records_deleted_by_retention_are_an_error_or_left_out(world: World, name: str) -> None:
    """(CORRECTNESS P3)"""
    topic = await world.topic(config=SMALL)
    await world.fill(topic, numbered(200, size=200), batch_bytes=KIB)
    stream = partial(world.stream, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="50")
    first = f'{{"{topic}": {{"0": 10}}}}'
    read = partial(world.load, subscribe=topic, startingOffsets=first)
    await asyncio.to_thread(world.run, stream(), name)
    await world.fill(topic, numbered(200, first=200, size=200), batch_bytes=KIB)
    await expire(world, topic)
    there = await world.rows(topic)
    begin = there[0].offset
    assert begin > 210

    why = f"the log starts at offset {begin}, retention has deleted what was before"
    with pytest.raises(PySparkException) as failed:
        await asyncio.to_thread(lambda: read().count())
    assert f"DataLost: {topic}-0 has lost offsets 10 to {begin - 1}: {why}" in str(failed.value)
    assert await world.found(lambda: read(failOnDataLoss="false")) == there

    with pytest.raises(StreamingQueryException) as broken:
        await asyncio.to_thread(world.run, stream(), name)
    assert f"DataLost: {topic}-0 has lost offsets 200 to {begin - 1}: {why}" in str(broken.value)
    await asyncio.to_thread(world.run, stream(failOnDataLoss="false"), name)
    written = await asyncio.to_thread(world.written, name)
    assert [offset for _, offset in offsets(written)] == [*range(200), *(row.offset for row in there)]


async def expire(world: World, topic: str) -> None:
    """Have retention delete most of it."""
    async with Admin(world.cluster.bootstrap) as admin:
        await admin.alter_topic(topic, set={"retention.bytes": "2048"})

        async def went() -> bool:
            rows = await world.rows(topic)
            return 0 < len(rows) < 40

        await eventually(went, what="retention deletes")
        await admin.alter_topic(topic, set={"retention.bytes": "-1"})


@pytest.mark.slow
async def test_a_leader_that_is_killed_in_the_middle_of_a_read_costs_no_record_and_doubles_none(
    world: World, tmp_path: Path
) -> None:
    """(CORRECTNESS P3)"""
    topic = await world.topic()
    await world.fill(topic, numbered(40_000, size=1_000))
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"

    def waiting(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            begun.touch()
            while not go_on.exists():
                Event().wait(0.02)
            yield batch.select(["offset"])

    def read() -> list[int]:
        frame = world.load(subscribe=topic).mapInArrow(waiting, "offset long")
        return [row.offset for row in frame.collect()]

    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(asyncio.to_thread(read))
        await eventually(begun.exists, deadline_s=60, what="reading began")
        leader = await leader_of(world.cluster, topic)
        await world.cluster.kill_broker(leader)
        go_on.touch()
    await world.cluster.start_broker(leader)
    assert reading.result() == list(range(40_000))


async def leader_of(cluster: LocalCluster, topic: str) -> int:
    async with Admin(cluster.bootstrap) as admin:
        (described,) = await admin.describe_topics([topic])
        return described.partitions[0].leader


# --- streams ------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_stream_that_is_started_again_continues_with_what_was_appended_meanwhile(
    world: World, name: str
) -> None:
    """New partitions and new topics are read from their first record on."""
    topic = await world.topic(1)
    await world.fill(topic, numbered(30))
    stream = world.stream(subscribePattern=f"{topic}.*", startingOffsets="earliest")
    await asyncio.to_thread(world.run, stream, name)
    await asyncio.to_thread(world.run, stream, name)  # there is nothing to do
    await world.fill(topic, numbered(20, first=30))
    async with Admin(world.cluster.bootstrap) as admin:
        await admin.alter_topic(topic, partitions=2)
    await world.fill(topic, numbered(7), partition=1)
    late = await world.topic(2, name=f"{topic}-late")
    await world.fill(late, numbered(5), partition=1)
    progress = await asyncio.to_thread(world.run, stream, name)
    assert sum(batch["numInputRows"] for batch in progress) == 32
    assert await asyncio.to_thread(world.written, name) == bare(await world.rows(topic, late))


def bare(rows: list[Row]) -> list[Row]:
    return [row._replace(headers=()) for row in rows]


@pytest.mark.slow
async def test_a_first_batch_that_fails_is_repeated_from_where_it_began_wherever_a_new_query_would_begin(
    world: World, name: str
) -> None:
    topic = await world.topic(1)
    await world.fill(topic, numbered(10))

    def fail(batch: DataFrame, number: int) -> None:
        raise ValueError("the sink is broken")

    stream = partial(world.stream, subscribe=topic)
    with pytest.raises(StreamingQueryException, match="the sink is broken"):
        await asyncio.to_thread(partial(world.run, stream(startingOffsets="earliest"), name, each=fail))
    await world.fill(topic, numbered(4))
    await asyncio.to_thread(world.run, stream(startingOffsets="latest"), name)
    written = await asyncio.to_thread(world.written, name)
    assert [row.offset for row in written] == list(range(14))


@pytest.mark.slow
async def test_available_now_is_what_was_there_at_its_begin_in_batches_of_a_limit(
    world: World, name: str
) -> None:
    topic = await world.topic(3)
    for number, count in enumerate((5, 40, 400)):
        await world.fill(topic, numbered(count), partition=number)
    loop = asyncio.get_running_loop()

    def keep_and_grow(batch: DataFrame, number: int) -> None:
        world.keep(name)(batch, number)
        asyncio.run_coroutine_threadsafe(world.fill(topic, numbered(50)), loop).result()

    stream = world.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="100")
    progress = await asyncio.to_thread(world.run, stream, name, each=keep_and_grow)
    rows = [batch["numInputRows"] for batch in progress if batch["numInputRows"]]
    assert rows == [100, 100, 100, 100, 45]
    written = await asyncio.to_thread(world.written, name)
    assert offsets(written) == [
        (number, offset) for number, count in enumerate((5, 40, 400)) for offset in range(count)
    ]


@pytest.mark.slow
async def test_a_topic_that_is_created_again_is_a_loss_and_then_another_topic(
    world: World, name: str
) -> None:
    """(CORRECTNESS P3) Its offsets begin at 0, and an offset of the old one has no meaning for it."""
    topic = await world.topic()
    await world.fill(topic, numbered(10))
    stream = partial(world.stream, subscribe=topic, startingOffsets="earliest")
    await asyncio.to_thread(world.run, stream(), name)
    async with Admin(world.cluster.bootstrap) as admin:
        await admin.delete_topics([topic])

        async def gone() -> bool:
            return topic not in await admin.list_topics()

        await eventually(gone, what="the topic is gone")
    await world.topic(name=topic)
    await world.fill(topic, numbered(25, first=500))
    with pytest.raises(StreamingQueryException, match="another one has its name now"):
        await asyncio.to_thread(world.run, stream(), name)
    await asyncio.to_thread(world.run, stream(failOnDataLoss="false"), name)
    written = await asyncio.to_thread(world.written, name)
    assert sorted(row.value or b"" for row in written) == [*numbered(10), *numbered(25, first=500)]


@pytest.mark.slow
async def test_a_stream_without_new_records_makes_no_batches_and_reports_its_progress_to_a_group(
    world: World, name: str
) -> None:
    topic = await world.topic()
    await world.fill(topic, numbered(10))
    group = f"lag-{topic}"
    stream = world.stream(subscribe=topic, startingOffsets="earliest", commitGroup=group)
    query = await asyncio.to_thread(world.going, stream, name)
    try:
        await world.fill(topic, numbered(5))
        async with Admin(world.cluster.bootstrap) as admin:

            async def committed_first() -> bool:
                committed = (await admin.group_offsets(group)).get(TopicPartition(topic, 0))
                return committed is not None and committed.offset >= 10

            await eventually(
                committed_first, deadline_s=60, what="the group is committed_first of the first batch"
            )
        await asyncio.to_thread(query.processAllAvailable)
    finally:
        await asyncio.to_thread(query.stop)
    batches = sorted(int(path.name.split("=")[1]) for path in (world.home / name).glob("batch=*"))
    assert batches == [0, 1]
    assert len(await asyncio.to_thread(world.written, name)) == 15
