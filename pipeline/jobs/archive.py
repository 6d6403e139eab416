"""A topic kept as Parquet files: each record once, whatever is killed in between.

    DIR/topic=orders/date=2026-11-22/part-….parquet    the columns of the source; the date is that of the
                                                       record's timestamp, in UTC
    DIR/_spark_metadata/                               which of these files count: those of finished batches
    DIR/_checkpoint/                                   how far the topic was read

A batch that was cut off is read again, from the same offsets to the same offsets, and files that it had begun
count for nothing; those that Spark left behind are removed when the next run begins and when one ends, for
readers that do not know of `_spark_metadata`. One process at a time writes: on a local disk a lock in DIR,
which the JVM holds, keeps out a second one, and the rest of a driver that was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it ships none
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DateType, StructField, StructType

from strandline.errors import SettingsError
from strandline.ids import TopicPartition
from strandline.pipeline.core.offsets import StreamOffset
from strandline.pipeline.jobs.checkpoint import Checkpoint, local_path
from strandline.pipeline.jobs.records import said_by_spark
from strandline.pipeline.source import columns

LOCK: Final = "_checkpoint/lock"
LOCK_S_MAX: Final = 30.0
"""How long another writer is waited for: what is left of one that was killed ends within moments."""
BATCH_RECORDS: Final = 2_000_000
WAIT_S: Final = 0.25
PARTITION_COLUMNS: Final = ("topic", "date")


@dataclass(frozen=True, slots=True)
class Archived:
    """What a run added, by partition: from the first offset up to the one after the last. `leftovers` are
    files of batches that were cut off, which were removed."""

    offsets: Mapping[TopicPartition, tuple[int, int]]
    leftovers: int


def place(directory: str) -> str:
    """A path or URL for Spark: a path of this machine from its root, whatever Spark's own folder is."""
    local = local_path(directory)
    return directory if local is None else str(local)


def dated(records: DataFrame) -> DataFrame:
    """The records with the column `date`, in UTC whatever the session's time zone is."""
    day = F.to_date(F.convert_timezone(None, F.lit("UTC"), F.col("timestamp").cast("timestamp_ntz")))
    return records.withColumn("date", day)


def schema() -> StructType:
    """The columns of an archive: nothing is left to be guessed from folders' names."""
    return StructType([*columns(include_headers=True), StructField("date", DateType())])


def archived(spark: SparkSession, directory: str) -> DataFrame:
    """What finished batches wrote, as Spark reads it."""
    return spark.read.schema(schema()).parquet(directory)


def run(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    directory: str,
    *,
    every_s: float | None = None,
    batch_records: int = BATCH_RECORDS,
    skip_lost: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    told: Callable[[Mapping[str, Any]], None] = lambda progress: None,
) -> Archived:
    """Add to the archive in `directory` (a path, or a URL that Spark knows) what it lacks of the topic; with
    `every_s` go on so, every so many seconds, until it is `stopped`. A batch has about `batch_records`.

    `told` is called with Spark's progress of each batch. Raises SettingsError if the folder is that of
    another topic, is not whole, was moved or has files of somebody else, or another process writes to it;
    JobFailed, for records too that were lost before they were archived, unless `skip_lost`.
    """
    with said_by_spark(), _alone(spark, directory):
        checkpoint = Checkpoint(spark, directory)
        before = checkpoint.end()
        if before is not None:
            check_topic(before, topic, directory)
        elif not checkpoint.begun() and (others := leftovers(spark, directory)):
            raise SettingsError(
                f"{directory} has files that no archive there wrote, such as {others[0]}: give another folder"
            )
        removed = remove_leftovers(spark, directory)
        options = {
            "bootstrap": bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            "maxOffsetsPerTrigger": str(batch_records),
            "failOnDataLoss": str(not skip_lost).lower(),
        }
        stream = spark.readStream.format("strandline").options(**options).load()
        writer = dated(stream).writeStream.format("parquet").partitionBy(*PARTITION_COLUMNS)
        writer = writer.option("checkpointLocation", f"{directory}/_checkpoint").queryName(f"archive {topic}")
        # Micros, as all readers of Parquet know them; Spark's own choice is an older one.
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        _be_brief(spark)
        trigger: dict[str, Any] = {"availableNow": True}
        if every_s is not None:
            trigger = {"processingTime": f"{round(every_s * 1000)} milliseconds"}
        query = writer.trigger(**trigger).start(directory)
        try:
            _wait(query, told, stopped)
        finally:
            query.stop()
            removed += remove_leftovers(spark, directory)
        return Archived(_added(before, checkpoint.end()), removed)


def _be_brief(spark: SparkSession) -> None:
    """What ends a query is raised; Spark would write it into its log as well, with all its trace."""
    log4j: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # with Connect there is none
    name = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
    log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)


def check_topic(archived: StreamOffset, topic: str, directory: str) -> None:
    """Raises SettingsError if an archive is that of another topic."""
    topics = {name.topic for name in archived.offsets}
    if topics and topics != {topic}:
        raise SettingsError(
            f"{directory} is the archive of {', '.join(sorted(topics))}: give {topic} a folder of its own"
        )


def _wait(
    query: StreamingQuery, told: Callable[[Mapping[str, Any]], None], stopped: Callable[[], bool]
) -> None:
    """Until the query ends or is stopped, telling of each batch."""
    seen = -1
    ended: bool | None = False
    while not ended and not stopped():
        try:
            ended = query.awaitTermination(1)
        except StreamingQueryException:
            if stopped():  # Ctrl-C goes to Spark's Python processes too, without which a batch fails
                return
            raise
        for progress in query.recentProgress:
            if progress["batchId"] > seen and progress["numInputRows"]:
                seen = progress["batchId"]
                told(progress)


def _added(before: StreamOffset | None, after: StreamOffset | None) -> dict[TopicPartition, tuple[int, int]]:
    if after is None:
        return {}
    begun = dict(after.since or {}) if before is None else before.offsets
    return {
        name: (begun.get(name, 0), end) for name, end in after.offsets.items() if end > begun.get(name, 0)
    }


# --- one writer ------------------------------------------------------------------------------


@contextmanager
def _alone(spark: SparkSession, directory: str) -> Iterator[None]:
    """While nobody else writes to the archive. On other file systems than this machine's, whoever asks."""
    local = local_path(directory)
    if local is None:
        yield
        return
    path = local / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    jvm: Any = spark._jvm
    file = jvm.java.io.RandomAccessFile(str(path), "rw")
    try:
        _lock(jvm, file, directory)
        yield
    finally:
        file.close()  # which ends the lock


def _lock(jvm: Any, file: Any, directory: str) -> None:
    waited_s = 0.0
    while True:
        try:
            if file.getChannel().tryLock() is not None:
                return
        except Py4JJavaError as error:
            if "OverlappingFileLock" not in str(error.java_exception):
                raise
        if waited_s >= LOCK_S_MAX:
            raise SettingsError(f"another process writes to {directory}: end it first")
        jvm.java.lang.Thread.sleep(round(WAIT_S * 1000))
        waited_s += WAIT_S


# --- what was cut off ------------------------------------------------------------------------


def leftovers(spark: SparkSession, directory: str) -> list[Path]:
    """Parquet files below a local archive that no finished batch knows of. Raises as `Checkpoint.files`."""
    local = local_path(directory)
    if local is None or not local.exists():
        return []
    counted = Checkpoint(spark, directory).files()
    known = {path for path in map(local_path, counted) if path is not None}
    return [path for path in sorted(local.glob("topic=*/**/*.parquet")) if path not in known]


def remove_leftovers(spark: SparkSession, directory: str) -> int:
    """Remove these, and return how many there were. Nobody may write to the archive meanwhile."""
    found = leftovers(spark, directory)
    for path in found:
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return len(found)
