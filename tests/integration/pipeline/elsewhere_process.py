"""A driver of its own whose tasks run in executors of their own: copies a topic to another one.

python elsewhere_process.py PACKAGES MASTER batch|stream BOOTSTRAP SOURCE TARGET FOLDER

It finds strandline in the folder PACKAGES and nowhere else, and prints as a line of JSON in which files its
executors found it.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

TOO_SLOW = "Python worker failed to connect back"
START_TRIES = 8
"""Spark gives the Python process of a stream's driver ten seconds to come up, however busy the machine is."""
BATCHES = 3
LEAST = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Of Java: what costs the least to start."""


def main() -> None:
    packages, master, way, bootstrap, source, target, folder = sys.argv[1:]
    sys.path.insert(0, packages)
    from pipeline.session import session

    spark = session(
        master,
        "elsewhere",
        **{"spark.driver.extraJavaOptions": LEAST, "spark.executor.extraJavaOptions": LEAST},
    )
    print(json.dumps(homes(spark)), flush=True)
    copy = {"batch": copy_batch, "stream": copy_stream}[way]
    copy(spark, bootstrap, source, target, folder)
    spark.stop()


def homes(spark: SparkSession) -> list[str]:
    """Where tasks find the packages."""

    def home(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        import pipeline.source

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"home": [pipeline.source.__file__] * batch.num_rows})

    rows = spark.range(4, numPartitions=4).mapInArrow(home, "home string").distinct().collect()
    return sorted(row.home for row in rows)


def copy_batch(spark: SparkSession, bootstrap: str, source: str, target: str, folder: str) -> None:
    reader = spark.read.format("strandline").option("bootstrap", bootstrap)
    rows = reader.options(subscribe=source, includeHeaders="true").load()
    writer = as_they_are(rows).write.format("strandline").mode("append")
    writer.options(bootstrap=bootstrap, topic=target).save()


def copy_stream(spark: SparkSession, bootstrap: str, source: str, target: str, folder: str) -> None:
    """In a few micro-batches of many small appends, so that something can happen in the middle of one."""
    from pyspark.errors import StreamingQueryException

    rows = spark.read.format("strandline").options(bootstrap=bootstrap, subscribe=source).load().count()
    reader = spark.readStream.format("strandline").option("bootstrap", bootstrap)
    reader = reader.options(
        subscribe=source,
        includeHeaders="true",
        startingOffsets="earliest",
        maxOffsetsPerTrigger=str(rows // BATCHES),
    )
    writer = as_they_are(reader.load()).writeStream.format("strandline").outputMode("append")
    writer = writer.options(
        bootstrap=bootstrap, topic=target, batchBytes="1024", checkpointLocation=f"{folder}/checkpoint"
    )
    for _ in range(START_TRIES):
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
        except StreamingQueryException as error:
            if TOO_SLOW not in str(error):
                raise
        else:
            return
    raise TimeoutError(f"the query did not start in {START_TRIES} tries")


def as_they_are(rows: DataFrame) -> DataFrame:
    return rows.drop("topic")


if __name__ == "__main__":
    main()
