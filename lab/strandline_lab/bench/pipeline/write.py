"""Measures how fast Spark writes a topic, beside the producer's bulk call and a sink that drops its rows.

The rows are read from Parquet files with one column of values. The producer has the same values in memory.
The sink that drops them is in Python and takes Arrow batches, as ours does: the maximum that Spark gives to
Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from strandline import Admin, Consumer, LocalCluster, TopicPartition
from strandline_lab.bench.pipeline.topics import (
    MASTER,
    PARTITIONS,
    Case,
    new_topic,
    seconds,
    sent,
    show_progress,
    spark_session,
)
from strandline_lab.bench.report import RUNS, heading, median_of, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

CASES: Final = (Case("100 B", 1_000_000, 100), Case("1 KiB", 200_000, 1_024))
SINK, PRODUCER, NOWHERE = "Spark, the topic", "producer, `send_many`", "Spark, a sink that drops them"


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading(f"Write a topic, 3 replicas, {PARTITIONS} partitions, Spark {MASTER}", "pipeline_write")
    rows = []
    async with LocalCluster(brokers=3) as cluster:
        with spark_session() as spark, TemporaryDirectory(prefix="pipeline-write-") as folder:
            spark.dataSource.register(nowhere())
            for case in CASES:
                rows += await _written(
                    spark, cluster.bootstrap, case, Path(folder, str(case.value_bytes)), runs
                )
    table(["", "", "rows/s", "MB/s of values"], rows)


async def _written(
    spark: SparkSession, bootstrap: str, case: Case, folder: Path, runs: int
) -> list[list[str]]:
    """A row of the table for each way. The first run of each is not counted, since Java is not warm yet."""
    lists = list(case.values())
    _to_parquet(lists, folder)
    values = spark.read.parquet(str(folder))
    taken: dict[str, list[float]] = {SINK: [], PRODUCER: [], NOWHERE: []}
    for run in range(runs + 1):
        show_progress(f"run {run} of {runs}: write {case.name}")
        topic = await new_topic(bootstrap)
        writer = values.write.format("strandline").mode("append").options(bootstrap=bootstrap, topic=topic)
        taken[SINK].append(seconds(writer.save))
        await _removed(bootstrap, topic, case)
        topic = await new_topic(bootstrap)
        taken[PRODUCER].append(await sent(bootstrap, topic, lists))
        await _removed(bootstrap, topic, case)
        taken[NOWHERE].append(seconds(values.write.format("nowhere").mode("append").save))
    return [
        [
            case.name,
            name,
            median_of([case.records / each for each in times[1:]]),
            median_of([case.size / each / 1e6 for each in times[1:]]),
        ]
        for name, times in taken.items()
    ]


def _to_parquet(lists: Sequence[Sequence[bytes]], folder: Path) -> None:
    """Writes as many files as the topic has partitions."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir()
    schema = pa.schema([("value", pa.binary())])
    for number in range(PARTITIONS):
        with parquet.ParquetWriter(folder / f"{number}.parquet", schema, use_dictionary=False) as file:
            for values in lists:
                file.write_table(pa.table({"value": pa.array(values[number::PARTITIONS], pa.binary())}))


async def _removed(bootstrap: str, topic: str, case: Case) -> None:
    """Checks that all records are there, and deletes the topic."""
    async with Consumer(bootstrap) as consumer:
        names = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        found = sum((await consumer.end_offsets(names)).values())
        assert found == case.records, f"{found} records, not {case.records}"
    async with Admin(bootstrap) as admin:
        await admin.delete_topics([topic])


def nowhere() -> type[DataSource]:
    """A format `nowhere`, which takes Arrow batches and drops them."""
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
    from pyspark.sql.types import StructType

    class Writer(DataSourceArrowWriter):
        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            for _ in iterator:
                pass
            return WriterCommitMessage()

    class Nowhere(DataSource):
        @classmethod
        def name(cls) -> str:
            return "nowhere"

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
            return Writer()

    return Nowhere
