"""Each row once: with a real Spark and a real cluster, of which something dies in the middle of a write."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from strandline import Consumer, TopicPartition
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.errors import InvalidProducerEpoch, StrandlineError
from strandline.pipeline.core.sink_options import SinkOptions, sink_options
from strandline.pipeline.writing.row_buffer import Checks, RowBuffer
from strandline.pipeline.writing.task import Piece, SinkClient, append_rows
from strandline.producer.core.partitioner import partition_for
from tests.conftest import ClusterFactory
from tests.integration.pipeline.sink_process import write_lines
from tests.integration.pipeline.source_world import Row, World
from tests.integration.support.harness import FAULT_SETTINGS, Harness, watching
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_500)]

SMALL = {"batchBytes": "1024"}
"""So that a write takes many appends, between which things may happen."""
FILES, LINES = 4, 750
DONE_S_MAX = 400.0


@pytest.fixture(scope="module")
async def world(
    make_module_cluster: ClusterFactory, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> World:
    settings = {**FAULT_SETTINGS, "zookeeper_session_timeout_ms": 4_000, "compaction_check_ms": 100}
    cluster = await make_module_cluster(brokers=3, broker_settings=settings)
    return World(cluster, spark, tmp_path_factory.mktemp("sink"))


def activate(spark: SparkSession) -> None:
    """In a thread of its own: Spark looks for a format in the thread's session, which a new one lacks."""
    assert spark._jvm is not None
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)


def save(frame: DataFrame, world: World, *, mode: str = "append", **options: str) -> None:
    """For a thread of its own."""
    activate(frame.sparkSession)
    writer = frame.write.format("strandline").mode(mode).option("bootstrap", world.cluster.bootstrap)
    writer.options(**options).save()


async def has(world: World, topic: str, records: float) -> bool:
    """True if this number of records can be read; False also while brokers do not answer."""
    try:
        return await end_of(world, topic) >= records
    except StrandlineError:
        return False


async def end_of(world: World, topic: str) -> int:
    """Records that can be read, over all partitions."""
    async with Consumer(world.cluster.bootstrap) as consumer:
        names = [TopicPartition(topic, number) for number in await consumer.partitions_for(topic)]
        return sum((await consumer.end_offsets(names)).values())


async def values_of(world: World, topic: str) -> Counter[bytes | None]:
    return Counter(row.value for row in await world.rows(topic))


def once(values: Iterable[str]) -> Counter[bytes | None]:
    return Counter(value.encode() for value in values)


# --- what is written ----------------------------------------------------------------------------


async def test_rows_arrive_with_all_that_they_have_where_they_say(world: World) -> None:
    """In compressed batches as in plain ones; and what was read from a topic can be written to another."""
    one, two, copy = await world.topic(3), await world.topic(2), await world.topic(3)
    at = datetime(2024, 5, 1, 12, 0, 0, 123_456, tzinfo=UTC)
    rows: list[tuple[Any, ...]] = [
        ("a", bytearray(b"1"), one, None, [("who", bytearray(b"me")), ("none", None)], at),
        ("b", None, one, 2, [], at),
        (None, bytearray(b"3"), two, None, None, at),
        ("", bytearray(b""), two, 1, None, at),
    ]
    schema = (
        "key string, value binary, topic string, partition int, "
        "headers array<struct<key:string,value:binary>>, timestamp timestamp"
    )
    frame = world.spark.createDataFrame(rows, schema).coalesce(1)
    await asyncio.to_thread(save, frame, world, compression="zstd")
    at_ms = 1_714_564_800_123
    headers = (("who", b"me"), ("none", None))
    wanted = [
        Row(one, partition_for(b"a", 3), 0, at_ms, b"a", b"1", headers),
        Row(one, 2, int(partition_for(b"a", 3) == 2), at_ms, b"b", None),
        Row(two, 0, 0, at_ms, None, b"3"),
        Row(two, 1, 0, at_ms, b"", b""),
    ]
    assert await world.rows(one, two) == sorted(wanted)

    read = world.load(subscribe=one, includeHeaders="true")
    await asyncio.to_thread(save, read.drop("topic"), world, topic=copy)
    copied = [
        (row.partition, row.timestamp_ms, row.key, row.value, row.headers) for row in await world.rows(copy)
    ]
    assert copied == [(r.partition, r.timestamp_ms, r.key, r.value, r.headers) for r in await world.rows(one)]


async def test_unwritable_rows_are_refused_with_a_remedy_before_anything_is_written(world: World) -> None:
    """(CORRECTNESS P4) By the driver, then by its tasks. Tests without Spark have every case."""
    topic, compacted = await world.topic(2), await world.topic(1, config={"cleanup.policy": "compact"})
    spark = world.spark
    row = "concat('v', id) AS value"

    def frame(*columns: str) -> DataFrame:
        return spark.range(50, numPartitions=1).selectExpr(*columns)

    big = frame("repeat('x', IF(id = 40, 1100000, 3)) AS value")
    cases: list[tuple[DataFrame, dict[str, str], str]] = [
        (frame("id AS key"), {"topic": topic}, "cast it to binary or string"),
        (frame(row), {}, "no topic: give the option topic"),
        (frame(row), {"topic": "nowhere"}, "no such topic"),
        (frame(row, f"IF(id = 7, NULL, '{topic}') AS topic"), {}, "row 7 of Spark partition 0.*has no topic"),
        (big, {"topic": topic}, "row 40 of.*1100.*max.message.bytes"),
        (frame(row, "IF(id = 3, NULL, 'k') AS key"), {"topic": compacted}, "row 3 of.*no key"),
    ]
    for given, options, said in cases:
        with pytest.raises(PySparkException, match=f"(?s){said}"):
            await asyncio.to_thread(save, given, world, **options)
    with pytest.raises(PySparkException, match=r"mode\(\"append\"\)"):
        await asyncio.to_thread(save, frame(row), world, mode="overwrite", topic=topic)
    assert await end_of(world, topic) == await end_of(world, compacted) == 0


# --- kills --------------------------------------------------------------------------------------


def workers(spark: SparkSession) -> list[int]:
    """The Python processes in which tasks of this Spark run."""
    assert spark.sparkContext._jvm is not None
    java = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    daemons = [pid for pid in children(java) if b"pyspark.worker" in command(pid)]
    return [worker for daemon in daemons for worker in children(daemon)]


def children(pid: int) -> list[int]:
    with suppress(FileNotFoundError):
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return []


def command(pid: int) -> bytes:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


async def test_workers_that_are_killed_in_the_middle_of_a_write_cost_and_double_no_row(world: World) -> None:
    """(CORRECTNESS P1, P2) Each attempt has its rows in another order, and knows what others wrote."""
    topic, count = await world.topic(3), 6_000

    def shuffled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.take(pa.array(random.sample(range(batch.num_rows), batch.num_rows)))

    frame = world.spark.range(count, numPartitions=2).selectExpr(
        "concat('k', id % 50) AS key", "concat('v', id) AS value"
    )
    frame = frame.mapInArrow(shuffled, frame.schema)
    killed: set[int] = set()
    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(asyncio.to_thread(save, frame, world, topic=topic, **SMALL))
        for share in (0.1, 0.4):

            async def reached(share: float = share) -> bool:
                return writing.done() or await has(world, topic, share * count)

            await eventually(reached, deadline_s=DONE_S_MAX, what=f"{share:.0%} is written")
            if not writing.done():
                for worker in workers(world.spark):
                    with suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGKILL)
                        killed.add(worker)
    assert killed
    assert await values_of(world, topic) == once(f"v{number}" for number in range(count))


async def test_a_driver_that_is_killed_has_each_row_written_once(world: World, tmp_path: Path) -> None:
    """(CORRECTNESS P1) The whole process, at a random moment; then this one continues from the checkpoint.
    Many kills of many attempts are pipeline/writing/test_exactly_once.py's, without a Spark."""
    topic = await world.topic(2)
    lines = tmp_path / "lines"
    lines.mkdir()
    wanted = [f"{file} {line}" for file in range(FILES) for line in range(LINES)]
    for file in range(FILES):
        (lines / f"{file}.txt").write_text("\n".join(w for w in wanted if w.startswith(f"{file} ")))
    share = random.uniform(0.05, 0.7)
    with driver(world, topic, tmp_path) as process:

        async def reached() -> bool:
            return process.poll() is not None or await has(world, topic, share * len(wanted))

        await eventually(reached, deadline_s=DONE_S_MAX, what=f"{share:.0%} is written")
        assert process.poll() is None, (tmp_path / "log").read_text()[-4_000:]

    def go_on() -> None:
        activate(world.spark)
        write_lines(world.spark, world.cluster.bootstrap, topic, tmp_path)

    await asyncio.to_thread(go_on)
    assert await values_of(world, topic) == once(wanted)


@contextmanager
def driver(world: World, topic: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver in a process group of its own, all of which is killed at the end."""
    arguments = [world.cluster.bootstrap, topic, str(folder)]
    module = "tests.integration.pipeline.sink_process"
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# --- attempts as Spark's tasks make them, without Spark -----------------------------------------


def options_of(world: World, topic: str) -> SinkOptions:
    return sink_options({"bootstrap": world.cluster.bootstrap, "topic": topic, **SMALL})


async def attempt(world: World, topic: str, values: Sequence[str], query: str, batch: int = 0) -> int:
    """One attempt at these rows; how many of them others had written."""
    options = options_of(world, topic)
    async with SinkClient(options) as client:
        facts = await client.facts(topic)
    buffer, checks = RowBuffer(memory_bytes=10_000), Checks(topic, lambda _: facts, "the attempt")
    for start in range(0, len(values), 500):
        part = values[start : start + 500]
        rows = pa.RecordBatch.from_pydict({"key": [value[-1] for value in part], "value": list(part)})
        checks.check(rows)
        buffer.add(rows)
    try:
        written = await append_rows(buffer, options, checks.topics, Piece(query, batch, 0))
    finally:
        buffer.close()
    assert sum(target.records for target in written) == len(values)
    return sum(target.matched for target in written)


async def test_attempts_at_the_same_time_write_each_row_once(world: World) -> None:
    """(CORRECTNESS P1, P2) As with speculation, or an executor that was given up and lives; each has another
    order of the rows."""
    topic, query = await world.topic(2), uuid4().hex
    values = [f"v{number % 900}" for number in range(1_000)]
    orders = [random.sample(values, len(values)) for _ in range(3)]
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(attempt(world, topic, order, query)) for order in orders]
    assert await values_of(world, topic) == once(values)
    assert sum(task.result() for task in running) == 2 * len(values)


async def test_leaders_that_are_killed_meanwhile_cost_and_double_no_row(world: World) -> None:
    """(CORRECTNESS P1)"""
    topic, query = await world.topic(1), uuid4().hex
    values = [f"v{number}" for number in range(3_000)]
    async with watching(world.cluster) as harness, asyncio.TaskGroup() as tasks:
        writing = [tasks.create_task(attempt(world, topic, order, query)) for order in (values, values[::-1])]
        for share in (0.1, 0.5):

            async def reached(share: float = share) -> bool:
                written = await has(world, topic, share * len(values))
                return written or all(task.done() for task in writing)

            await eventually(reached, deadline_s=DONE_S_MAX, what=f"{share:.0%} is written")
            await replace_leader(world, harness, topic)
    assert await values_of(world, topic) == once(values)


async def replace_leader(world: World, harness: Harness, topic: str) -> None:
    """Kill the leader, and start it again once another one leads."""

    async def state() -> Any:
        return isr_znodes.load_isr(topic, 0, (await harness.session.get(znodes.isr(topic, 0))).data)

    before = await state()
    await world.cluster.kill_broker(before.leader)

    async def changed() -> bool:
        now = await state()
        return bool(now.leader_epoch > before.leader_epoch and now.leader >= 0)

    await eventually(changed, deadline_s=DONE_S_MAX, what="another broker leads")
    await world.cluster.start_broker(before.leader)


async def test_an_attempt_at_a_batch_that_is_over_writes_nothing(world: World) -> None:
    """(CORRECTNESS P1)"""
    topic, query = await world.topic(1), uuid4().hex
    assert await attempt(world, topic, ["old"], query, batch=5) == 0
    assert await attempt(world, topic, ["new"], query, batch=6) == 0
    with pytest.raises(InvalidProducerEpoch, match="a later batch than this one"):
        await attempt(world, topic, ["zombie"], query, batch=5)
    assert await values_of(world, topic) == once(["old", "new"])


async def test_a_row_that_a_compacted_topic_has_replaced_is_not_brought_back(world: World) -> None:
    """A repeat finds of each key the last value only: what came before it counts as written."""
    config = {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0.0"}
    topic, query = await world.topic(1, config=config), uuid4().hex
    values = [f"v{number}" for number in range(300)]
    assert await attempt(world, topic, values[:250], query) == 0

    async def compacted() -> bool:
        return len(await world.rows(topic)) < 200

    await eventually(compacted, deadline_s=DONE_S_MAX, what="compaction has met the topic")
    await attempt(world, topic, values, query)
    last = {row.key: row.value for row in await world.rows(topic)}
    assert last == {str(digit).encode(): f"v{290 + digit}".encode() for digit in range(10)}
