"""Checks that an archive has exactly the records of its topic, up to the archive's end.

Both are read while the topic grows: the archive up to the end in its checkpoint, the topic up to the same
offsets. For each partition the number of records, their first and last offset and a digest over all columns
are compared; records are compared one by one only where these differ. Records that the topic has lost to
retention or, if it is compacted, to a later record with their key, are noted and are no fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships none
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import Row

from strandline.client.admin.admin import Admin
from strandline.errors import SettingsError
from strandline.ids import TopicPartition
from strandline.pipeline.core.connection import Connection
from strandline.pipeline.core.offsets import Offsets, StreamOffset, as_text
from strandline.pipeline.core.options import ISOLATION, READ_COMMITTED, Selection
from strandline.pipeline.jobs.archive import check_topic, isolation_of, leftovers, schema
from strandline.pipeline.jobs.checkpoint import Checkpoint
from strandline.pipeline.jobs.records import ON_DISK, JobFailed, kept, spark_errors
from strandline.pipeline.loop_thread import call
from strandline.pipeline.reading.cluster_facts import ClusterFacts

DIFFERENCES_MAX: Final = 20
"""How many differing records are listed."""
TRIES_MAX: Final = 3
"""How often retention may remove records during a check."""

MISSING, EXTRA, CHANGED, DOUBLE = "missing", "extra", "changed", "double"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A summary of records of one partition. `digest` does not depend on their order."""

    records: int = 0
    first: int | None = None
    last: int | None = None
    digest: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """A record that only the topic has (missing), that only the archive has (extra), that differs (changed),
    or that the archive has more than once (double)."""

    kind: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class PartitionCheck:
    """One partition, over the offsets that could be compared."""

    partition: int
    start: int
    end: int
    archive: Fingerprint
    topic: Fingerprint
    before: int
    """Records of the archive before `start`, which the topic no longer has."""

    @property
    def same(self) -> bool:
        return self.archive == self.topic


@dataclass(frozen=True, slots=True)
class Check:
    """`faults` are problems other than differing records; `notes` are legitimate deviations. `different` may
    exceed the number of listed `differences`."""

    partitions: tuple[PartitionCheck, ...]
    differences: tuple[Difference, ...]
    different: int
    faults: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def sound(self) -> bool:
        return not self.faults and not self.different


# --- frames ----------------------------------------------------------------------------------


def hashed(records: DataFrame) -> DataFrame:
    """partition, offset, and a hash over all columns of the source. Null differs from empty."""
    bare = F.transform(
        "headers",
        lambda h: F.struct(h["key"], h["value"].isNull(), F.coalesce(h["value"], F.lit(b"").cast("binary"))),
    )
    columns: list[Column] = [F.col("topic"), F.col("partition"), F.col("offset"), F.col("timestampType")]
    for name, empty in (("key", b""), ("value", b"")):
        columns += [F.col(name).isNull(), F.coalesce(name, F.lit(empty).cast("binary"))]
    columns += [F.col("timestamp").isNull(), F.coalesce(F.unix_micros("timestamp"), F.lit(0))]
    columns += [F.col("headers").isNull(), F.coalesce(F.size("headers"), F.lit(0)), bare]
    return records.select("partition", "offset", F.xxhash64(*columns).alias("hash"))


def within(hashes: DataFrame, starts: Mapping[int, int], ends: Mapping[int, int]) -> DataFrame:
    """The records between start and end of their partition; none of a partition without an end."""
    if not ends:
        return hashes.where(F.lit(False))
    begin, end = _of_partition(starts), _of_partition(ends)
    return hashes.where((F.col("offset") >= F.coalesce(begin, F.lit(0))) & (F.col("offset") < end))


def _of_partition(offsets: Mapping[int, int]) -> Column:
    if not offsets:
        return F.lit(None).cast("bigint")
    pairs = [F.lit(number) for pair in offsets.items() for number in pair]
    return F.try_element_at(F.create_map(*pairs), F.col("partition")).cast("bigint")


def fingerprints(hashes: DataFrame) -> DataFrame:
    """One row for each partition: records, first, last, digest (decimal)."""
    return hashes.groupBy("partition").agg(
        F.count("*").alias("records"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.sum(F.col("hash").cast("decimal(38,0)")).alias("digest"),
    )


def doubles(hashes: DataFrame) -> DataFrame:
    """partition and offset of records that occur more than once."""
    return hashes.groupBy("partition", "offset").count().where("count > 1").select("partition", "offset")


def differences(archive: DataFrame, topic: DataFrame) -> DataFrame:
    """kind (missing, extra or changed), partition and offset of each record in which two `hashed` frames
    differ. A record is listed once, even if the archive has it more than once."""
    ours = archive.groupBy("partition", "offset").agg(
        F.min("hash").alias("least"), F.max("hash").alias("greatest")
    )
    both = topic.join(ours, ["partition", "offset"], "full")
    changed = (F.col("least") != F.col("hash")) | (F.col("greatest") != F.col("hash"))
    kind = F.when(F.col("least").isNull(), MISSING).when(F.col("hash").isNull(), EXTRA).when(changed, CHANGED)
    return both.select(kind.alias("kind"), "partition", "offset").where("kind is not null")


# --- the check -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Logs:
    """The present topic: its id, whether it is compacted, the starts and ends of its partitions for readers
    of this isolation level."""

    topic_id: str
    isolation: str
    compacted: bool
    starts: Mapping[int, int]
    ends: Mapping[int, int]


def run(
    spark: SparkSession, cluster: Connection, topic: str, directory: str, *, isolation: str | None = None
) -> Check:
    """Compare an archive with its topic, at the archive's isolation level. Raises SettingsError if one of
    them does not exist, or the archive belongs to another topic or has another `isolation`; JobFailed."""
    with spark_errors():
        checkpoint = Checkpoint(spark, directory)
        archived = checkpoint.end()
        if archived is None:
            raise SettingsError(
                f"there is no archive in {directory}: `pipeline archive {topic} --to` makes one"
            )
        check_topic(archived, topic, directory)
        level = isolation_of(checkpoint, directory, isolation)
        for _ in range(TRIES_MAX - 1):
            logs = call(_logs(cluster, topic, level))
            try:
                return _compare(spark, cluster, topic, directory, archived, logs)
            except (PySparkException, Py4JError):
                # If retention removed records during the read, compare from the new start on.
                if call(_logs(cluster, topic, level)).starts == logs.starts:
                    raise
        return _compare(spark, cluster, topic, directory, archived, call(_logs(cluster, topic, level)))


async def _logs(cluster: Connection, topic: str, isolation: str) -> Logs:
    stable = isolation == READ_COMMITTED
    async with ClusterFacts(cluster.bootstrap, stable=stable, **cluster.settings) as facts:
        snapshot = await facts.snapshot(Selection(topics=(topic,)))
    if snapshot.missing:
        raise SettingsError(f"topic {topic!r} no longer exists: there is nothing to compare with")
    async with Admin(cluster.bootstrap, **cluster.settings) as admin:
        (described,) = (await admin.metadata([topic])).topics
    bounds = {name.partition: bounds for name, bounds in snapshot.bounds.items()}
    return Logs(
        snapshot.ids[topic],
        isolation,
        "compact" in described.config.get("cleanup.policy", ""),
        {number: bounds.start for number, bounds in bounds.items()},
        {number: bounds.end for number, bounds in bounds.items()},
    )


def _compare(
    spark: SparkSession, cluster: Connection, topic: str, directory: str, archived: StreamOffset, logs: Logs
) -> Check:
    archived_ends = {name.partition: end for name, end in archived.offsets.items()}
    before_id = archived.ids.get(topic)
    if before_id is not None and before_id != logs.topic_id:
        fault = f"{topic} was deleted and created again: the archive is of the topic that was there before"
        return Check((), (), 0, (fault,), ())
    faults = [
        f"{topic}-{number} ends at {logs.ends.get(number, 0)}, and the archive has it up to {end}: the topic "
        "lost records"
        for number, end in sorted(archived_ends.items())
        if logs.ends.get(number, 0) < end
    ]
    with _read(spark, directory) as (ours, unreadable):
        rest = hashed(_topic(spark, cluster, topic, logs, _ends(logs, archived_ends)))
        check = compared(ours, rest, logs, archived_ends)
    lying_about = len(leftovers(spark, directory))
    notes = list(check.notes)
    if lying_about:
        notes.append(f"of no finished batch, which the next run removes: {lying_about} files")
    return replace(check, faults=(*faults, *unreadable), notes=tuple(notes))


def compared(archived: DataFrame, rest: DataFrame, logs: Logs, archived_ends: Mapping[int, int]) -> Check:
    """Compare the `hashed` records of an archive up to `archived_ends` with those of a topic at the same
    offsets, as far as its logs have them."""
    ends = _ends(logs, archived_ends)
    side = within(archived, logs.starts, ends)
    ours, theirs = _by_partition(fingerprints(side)), _by_partition(fingerprints(rest))
    older = {row.partition: row.records for row in fingerprints(within(archived, {}, logs.starts)).collect()}
    partitions = tuple(
        PartitionCheck(
            number,
            min(logs.starts.get(number, 0), end),
            end,
            ours.get(number, Fingerprint()),
            theirs.get(number, Fingerprint()),
            older.get(number, 0),
        )
        for number, end in sorted(ends.items())
    )
    found = doubles(within(archived, {}, archived_ends)).withColumn("kind", F.lit(DOUBLE))
    found = found.select("kind", "partition", "offset")
    gone = 0
    with ExitStack() as stack:
        if not all(each.same for each in partitions):
            between = stack.enter_context(kept(differences(side, rest), ON_DISK))
            if logs.compacted:
                gone = between.where(F.col("kind") == EXTRA).count()
                between = between.where(F.col("kind") != EXTRA)
            found = found.unionAll(between)
        total = found.count()
        named = found.orderBy("partition", "offset", "kind").limit(DIFFERENCES_MAX).collect() if total else []
    return Check(
        partitions,
        tuple(Difference(row.kind, row.partition, row.offset) for row in named),
        total,
        (),
        tuple(_notes(partitions, gone)),
    )


def _ends(logs: Logs, archived_ends: Mapping[int, int]) -> dict[int, int]:
    return {number: min(end, logs.ends.get(number, 0)) for number, end in archived_ends.items()}


def _notes(partitions: Iterable[PartitionCheck], gone: int) -> Iterable[str]:
    older = sum(each.before for each in partitions)
    if older:
        yield f"in the archive only, for retention took them, and not compared: {older} records"
    if gone:
        yield f"in the archive only, for the topic is compacted: {gone} records"


def _by_partition(frame: DataFrame) -> dict[int, Fingerprint]:
    def read(row: Row) -> Fingerprint:
        return Fingerprint(row.records, row.first, row.last, int(row.digest) % 2**128)

    return {row.partition: read(row) for row in frame.collect()}


def _topic(
    spark: SparkSession, cluster: Connection, topic: str, logs: Logs, ends: Mapping[int, int]
) -> DataFrame:
    """The topic's records to compare with, of the partitions that have any."""
    starts = logs.starts
    some = {number: end for number, end in ends.items() if starts.get(number, 0) < end}
    if not some:
        return spark.createDataFrame([], schema())
    begin: Offsets = {TopicPartition(topic, number): starts.get(number, 0) for number in some}
    end: Offsets = {TopicPartition(topic, number): last for number, last in some.items()}
    numbers = ", ".join(map(str, some))
    options = {
        **cluster.options,
        "assign": f'{{"{topic}": [{numbers}]}}',
        "startingOffsets": as_text(begin),
        "endingOffsets": as_text(end),
        "includeHeaders": "true",
        ISOLATION: logs.isolation,
    }
    return spark.read.format("strandline").options(**options).load()


@contextmanager
def _read(spark: SparkSession, directory: str) -> Iterator[tuple[DataFrame, list[str]]]:
    """Hashes of the present files of finished batches, kept until the end of the block; and a list of files
    that are missing, changed or unreadable."""
    faults, there = list[str](), list[str]()
    checkpoint = Checkpoint(spark, directory)
    for path, written in sorted(checkpoint.files().items()):
        size = checkpoint.size(path)
        if size is None:
            faults.append(f"{path} is not there")
            continue
        there.append(path)
        if size != written:
            faults.append(f"{path} has {size} bytes, and {written} were written")
    if not there:
        yield hashed(spark.createDataFrame([], schema())), faults
        return
    reader = spark.read.schema(schema()).option("basePath", directory)
    with ExitStack() as stack:
        try:
            found = stack.enter_context(kept(hashed(reader.parquet(*there)), ON_DISK))
            with spark_errors():
                found.count()
        except JobFailed:
            stack.close()
            faults += _unreadable(reader, there)
            some = reader.option("ignoreCorruptFiles", "true").parquet(*there)
            found = stack.enter_context(kept(hashed(some), ON_DISK))
        yield found, faults


def _unreadable(reader: DataFrameReader, paths: Iterable[str]) -> Iterator[str]:
    """The unreadable ones of these files: Spark only reports the first that it finds."""
    for path in paths:
        try:
            with spark_errors():
                hashed(reader.parquet(path)).write.format("noop").mode("overwrite").save()
        except JobFailed as error:
            yield f"{path} cannot be read: {error}"
