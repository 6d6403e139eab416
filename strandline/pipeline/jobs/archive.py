"""Archives a topic as Parquet files: each record once, even if a process is killed in between.

    DIR/topic=orders/date=2026-11-22/part-….parquet    the columns of the source; the date is that of the
                                                       record's timestamp, in UTC
    DIR/_spark_metadata/                               the list of valid files: those of finished batches
    DIR/_checkpoint/                                   the offsets that were read

An interrupted batch is read again with the same offsets, and the files that it had begun are not valid. Files
that Spark left behind are removed when the next run begins and when a run ends, for readers that do not use
`_spark_metadata`. There is one writer at a time: on a local disk a lock in DIR, held by the JVM, excludes a
second one, and the remains of a driver that was killed.
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
from strandline.pipeline.core.connection import Connection
from strandline.pipeline.core.offsets import StreamOffset
from strandline.pipeline.core.options import ISOLATION, READ_COMMITTED, READ_UNCOMMITTED
from strandline.pipeline.jobs.checkpoint import Checkpoint, local_path
from strandline.pipeline.jobs.records import spark_errors
from strandline.pipeline.source import columns

LOCK: Final = "_checkpoint/lock"
LOCK_S_MAX: Final = 30.0
"""How long to wait for another writer: the remains of one that was killed end within moments."""
BATCH_RECORDS: Final = 2_000_000
WAIT_S: Final = 0.25
PARTITION_COLUMNS: Final = ("topic", "date")


@dataclass(frozen=True, slots=True)
class Archived:
    """The offsets that a run added, by partition: from the first up to the one after the last. `leftovers`:
    the number of removed files of interrupted batches."""

    offsets: Mapping[TopicPartition, tuple[int, int]]
    leftovers: int


def place(directory: str) -> str:
    """A path or URL for Spark; a local path is made absolute, since Spark may have another working folder."""
    local = local_path(directory)
    return directory if local is None else str(local)


def dated(records: DataFrame) -> DataFrame:
    """The records with the column `date`, in UTC, also if the session has another time zone."""
    day = F.to_date(F.convert_timezone(None, F.lit("UTC"), F.col("timestamp").cast("timestamp_ntz")))
    return records.withColumn("date", day)


def schema() -> StructType:
    """The columns of an archive, so that no column is inferred from the names of folders."""
    return StructType([*columns(include_headers=True), StructField("date", DateType())])


def archived(spark: SparkSession, directory: str) -> DataFrame:
    """The records of finished batches, as Spark reads them."""
    return spark.read.schema(schema()).parquet(directory)


def run(
    spark: SparkSession,
    cluster: Connection,
    topic: str,
    directory: str,
    *,
    every_s: float | None = None,
    batch_records: int = BATCH_RECORDS,
    skip_lost: bool = False,
    isolation: str | None = None,
    stopped: Callable[[], bool] = lambda: False,
    on_progress: Callable[[Mapping[str, Any]], None] = lambda progress: None,
) -> Archived:
    """Add the missing records of the topic to the archive in `directory` (a path, or a URL that Spark knows);
    with `every_s` continue at that interval, until it is `stopped`. A batch has about `batch_records`.

    An archive is of committed records, unless it begins with another `isolation`; it keeps the one that it
    began with.

    `on_progress` is called with Spark's progress of each batch. Raises SettingsError if the folder belongs to
    another topic, is incomplete or damaged, was moved or has foreign files, has another isolation, or another
    process writes to it;
    JobFailed, also for records that were lost before they were archived, unless `skip_lost`.
    """
    with spark_errors(), _alone(spark, directory):
        checkpoint = Checkpoint(spark, directory)
        checkpoint.check()
        before = checkpoint.end()
        if before is not None:
            check_topic(before, topic, directory)
        elif not checkpoint.begun() and (others := leftovers(spark, directory)):
            raise SettingsError(
                f"{directory} has files that no archive there wrote, such as {others[0]}: give another folder"
            )
        level = isolation_of(checkpoint, directory, isolation)
        checkpoint.keep_isolation(level)
        removed = remove_leftovers(spark, directory)
        options = {
            **cluster.options,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            "maxOffsetsPerTrigger": str(batch_records),
            ISOLATION: level,
            "failOnDataLoss": str(not skip_lost).lower(),
        }
        stream = spark.readStream.format("strandline").options(**options).load()
        writer = dated(stream).writeStream.format("parquet").partitionBy(*PARTITION_COLUMNS)
        writer = writer.option("checkpointLocation", f"{directory}/_checkpoint").queryName(f"archive {topic}")
        # All Parquet readers know microseconds; Spark's default is an older type.
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        _be_brief(spark)
        trigger: dict[str, Any] = {"availableNow": True}
        if every_s is not None:
            trigger = {"processingTime": f"{round(every_s * 1000)} milliseconds"}
        query = writer.trigger(**trigger).start(directory)
        try:
            _wait(query, on_progress, stopped)
        finally:
            query.stop()
            removed += remove_leftovers(spark, directory)
        return Archived(_added(before, checkpoint.end()), removed)


def _be_brief(spark: SparkSession) -> None:
    """Suppress Spark's log of a query's failure and its trace: the failure is raised anyway."""
    log4j: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # with Connect there is none
    name = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
    log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)


def check_topic(archived: StreamOffset, topic: str, directory: str) -> None:
    """Raises SettingsError if the archive belongs to another topic."""
    topics = {name.topic for name in archived.offsets}
    if topics and topics != {topic}:
        raise SettingsError(
            f"{directory} is the archive of {', '.join(sorted(topics))}: give {topic} a folder of its own"
        )


def isolation_of(checkpoint: Checkpoint, directory: str, wanted: str | None) -> str:
    """The isolation level of an archive: what it began with, or what is `wanted` of one that has not begun.
    Raises SettingsError if it has another one than is wanted."""
    if not checkpoint.begun():
        return wanted or READ_COMMITTED
    kept = checkpoint.isolation() or READ_UNCOMMITTED
    if wanted not in (None, kept):
        raise SettingsError(
            f"{directory} is an archive with isolation {kept}, not {wanted}: leave the isolation out, or "
            "give another folder"
        )
    return kept


def _wait(
    query: StreamingQuery, on_progress: Callable[[Mapping[str, Any]], None], stopped: Callable[[], bool]
) -> None:
    """Wait until the query ends or is stopped, and report each batch."""
    seen = -1
    ended: bool | None = False
    while not ended and not stopped():
        try:
            ended = query.awaitTermination(1)
        except StreamingQueryException:
            if stopped():  # Ctrl-C also stops Spark's Python processes, and then a batch fails
                return
            raise
        for progress in query.recentProgress:
            if progress["batchId"] > seen and progress["numInputRows"]:
                seen = progress["batchId"]
                on_progress(progress)


def _added(before: StreamOffset | None, after: StreamOffset | None) -> dict[TopicPartition, tuple[int, int]]:
    if after is None:
        return {}
    begun = dict(after.since or {}) if before is None else before.offsets
    return {
        name: (begun.get(name, 0), end) for name, end in after.offsets.items() if end > begun.get(name, 0)
    }


# --- single writer ---------------------------------------------------------------------------


@contextmanager
def _alone(spark: SparkSession, directory: str) -> Iterator[None]:
    """Hold the archive's lock. On file systems other than this machine's there is none."""
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
        file.close()  # this releases the lock


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


# --- interrupted batches ---------------------------------------------------------------------


def leftovers(spark: SparkSession, directory: str) -> list[Path]:
    """Parquet files in a local archive that belong to no finished batch. Raises as `Checkpoint.files`."""
    local = local_path(directory)
    if local is None or not local.exists():
        return []
    counted = Checkpoint(spark, directory).files()
    known = {path for path in map(local_path, counted) if path is not None}
    return [path for path in sorted(local.glob("topic=*/**/*.parquet")) if path not in known]


def remove_leftovers(spark: SparkSession, directory: str) -> int:
    """Remove these files, and return their number. There must be no other writer meanwhile."""
    found = leftovers(spark, directory)
    for path in found:
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return len(found)
