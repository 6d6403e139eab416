"""Measures how fast Spark reads a topic, beside the same rows in Parquet files and from memory.

The rows from memory come from a data source in Python whose Arrow batches are in memory: the maximum that
Spark takes from Python. Each query sums the lengths of all values, so each value is read at least once.
Parquet files have columns, of which Spark reads one; the other two return all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from strandline import LocalCluster
from strandline_lab.bench.pipeline.topics import (
    MASTER,
    PARTITIONS,
    Case,
    filled,
    loaded,
    seconds,
    show_progress,
    spark_session,
)
from strandline_lab.bench.report import RUNS, heading, median_of, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource

CASES: Final = (Case("100 B", 3_000_000, 100), Case("1 KiB", 400_000, 1_024))
BATCH_BYTES: Final = 8 * 2**20
"""The size of an Arrow batch in memory, roughly as large as those of the topic's source."""


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading(f"Read a topic, 3 replicas, {PARTITIONS} partitions, Spark {MASTER}", "pipeline_read")
    rows = []
    async with LocalCluster(brokers=3) as cluster:
        with spark_session() as spark, TemporaryDirectory(prefix="pipeline-read-") as folder:
            spark.dataSource.register(in_memory())
            for case in CASES:
                topic = await filled(cluster.bootstrap, case)
                parquet = f"{folder}/{case.value_bytes}"
                loaded(spark, cluster.bootstrap, topic).write.parquet(parquet)
                rows += _read(spark, case, _sources(spark, cluster.bootstrap, topic, parquet, case), runs)
    table(["", "", "rows/s", "MB/s of values"], rows)


def _sources(
    spark: SparkSession, bootstrap: str, topic: str, parquet: str, case: Case
) -> dict[str, Callable[[], DataFrame]]:
    """The same rows from three sources, by the source's name."""
    memory = spark.read.format("in_memory").options(
        records=str(case.records // PARTITIONS), value_bytes=str(case.value_bytes)
    )
    return {
        "the topic": lambda: loaded(spark, bootstrap, topic),
        "Parquet files": lambda: spark.read.parquet(parquet),
        "Arrow batches in memory": memory.load,
    }


def _read(
    spark: SparkSession, case: Case, sources: dict[str, Callable[[], DataFrame]], runs: int
) -> list[list[str]]:
    """A row of the table for each source. The first run of each is not counted, since Java is not warm
    yet."""
    taken: dict[str, list[float]] = {name: [] for name in sources}
    for run in range(runs + 1):
        for name, frame in sources.items():
            show_progress(f"run {run} of {runs}: read {case.name}, {name}")

            def read(frame: Callable[[], DataFrame] = frame) -> None:
                (found,) = frame().selectExpr("sum(length(value)) AS bytes").collect()
                assert found.bytes == case.size, f"{found.bytes} bytes, not {case.size}"

            taken[name].append(seconds(read))
    return [
        [
            case.name,
            name,
            median_of([case.records / each for each in times[1:]]),
            median_of([case.size / each / 1e6 for each in times[1:]]),
        ]
        for name, times in taken.items()
    ]


def in_memory() -> type[DataSource]:
    """A format `in_memory` with the columns of a topic. Each task has one batch and returns it until the
    option `records` is reached."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
    from pyspark.sql.types import StructType

    from strandline.pipeline.source import columns

    class Reader(DataSourceReader):
        def __init__(self, options: dict[str, str]) -> None:
            self._records = int(options["records"])
            self._value_bytes = int(options["value_bytes"])

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(PARTITIONS)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            batch = _batch(partition.value, BATCH_BYTES // (self._value_bytes + 50), self._value_bytes)
            for begin in range(0, self._records, batch.num_rows):
                yield batch.slice(0, min(batch.num_rows, self._records - begin))

    class InMemory(DataSource):
        @classmethod
        def name(cls) -> str:
            return "in_memory"

        def schema(self) -> StructType:
            return columns(include_headers=False)

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader(dict(self.options))

    return InMemory


def _batch(partition: int, rows: int, value_bytes: int) -> Any:
    """Rows as the topic's source returns them."""
    import numpy as np
    import pyarrow as pa

    from strandline.pipeline.columns.arrow import arrow_schema

    values = np.random.default_rng(partition).bytes(rows * value_bytes)
    ends = pa.py_buffer(np.arange(0, (rows + 1) * value_bytes, value_bytes, dtype=np.int32))
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(rows, pa.binary()),
            pa.Array.from_buffers(pa.binary(), rows, [None, ends, pa.py_buffer(values)]),
            pa.array(["in-memory"] * rows, pa.string()),
            pa.array(np.full(rows, partition, np.int32)),
            pa.array(np.arange(rows)),
            pa.array(np.arange(rows), pa.timestamp("us", tz="UTC")),
            pa.array(np.zeros(rows, np.int32)),
        ],
        schema=arrow_schema(include_headers=False),
    )
