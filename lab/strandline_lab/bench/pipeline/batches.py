"""Measures the cost of a nearly empty micro-batch: ten records each, from a topic and into one.

For comparison, a source and a sink of Spark itself, in Java, show what any micro-batch costs. The duration of
a micro-batch is Spark's own figure (triggerExecution); the first ones of a query are not counted.
"""

from __future__ import annotations

import json
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from strandline import LocalCluster
from strandline_lab.bench.pipeline.topics import (
    MASTER,
    PARTITIONS,
    REPLICAS,
    Case,
    filled,
    new_topic,
    show_progress,
    spark_session,
)
from strandline_lab.bench.report import RUNS, heading, median_of, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = 10
"""Rows of a micro-batch."""
COLD: Final = 5
BATCHES: Final = 30
"""Micro-batches of a query, including the first ones, when Java and Python are cold."""
LOOK_EVERY_S: Final = 0.5
CASE: Final = Case("tiny", ROWS * BATCHES, 100, at_once=ROWS)
"""The records for the batches of one query, taken in turn from all partitions."""
WAYS: Final = ("Spark's own source → noop", "topic → noop", "topic → topic")


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading(
        f"Micro-batches of {ROWS} records, {REPLICAS} replicas, {PARTITIONS} partitions, Spark {MASTER}",
        "pipeline_batches",
    )
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    async with LocalCluster(brokers=3) as cluster:
        source, target = await filled(cluster.bootstrap, CASE), await new_topic(cluster.bootstrap)
        with spark_session() as spark:
            for run in range(runs):
                for way in WAYS:
                    show_progress(f"run {run + 1} of {runs}: {way}")
                    taken[way] += _batches(spark, way, cluster.bootstrap, source, target)
    table(["", "s a micro-batch"], [[way, median_of(times)] for way, times in taken.items()])


def _batches(spark: SparkSession, way: str, bootstrap: str, source: str, target: str) -> list[float]:
    """Seconds of each micro-batch of a new query."""
    writer = _stream(spark, way, bootstrap, source).writeStream.format("noop")
    if way.endswith("→ topic"):
        writer = writer.format("strandline").options(bootstrap=bootstrap, topic=target)
    with TemporaryDirectory(prefix="pipeline-batches-") as folder:
        query = writer.option("checkpointLocation", folder).trigger(processingTime="0 seconds").start()
        try:
            if way.startswith("topic"):
                query.processAllAvailable()
            while (last := query.lastProgress) is None or last.batchId < BATCHES - 1:
                query.awaitTermination(LOOK_EVERY_S)  # type: ignore[arg-type]  # seconds, and parts of them
        finally:
            query.stop()
        progress = [json.loads(each.json) for each in query.recentProgress]
    return [
        each["durationMs"]["triggerExecution"] / 1_000
        for each in progress
        if COLD <= each["batchId"] < BATCHES and each["numInputRows"] == ROWS
    ]


def _stream(spark: SparkSession, way: str, bootstrap: str, source: str) -> DataFrame:
    """A stream of ten rows a micro-batch."""
    if way.startswith("topic"):
        reader = spark.readStream.format("strandline").option("bootstrap", bootstrap)
        return reader.options(
            subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=str(ROWS)
        ).load()
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
    return reader.option("numPartitions", PARTITIONS).load()
