"""The facts of an audit, as DataFrames with as few columns as possible: the outcomes of records, the claims
about positions, and the order of events.

Values are hashes (`hash`, `more`), histories are numbers. Every step is a join or a grouping that spreads
over all partitions and spills to disk; no row passes through Python.

If nearly every row has its own key, rows are repartitioned before they are grouped: Spark would first group
them locally, in vain, with a table in memory that grows with the size of a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from strandline.pipeline.jobs.history_events import hashes

VALUE: Final = ("topic", "hash", "more")
PLACE: Final = ("topic", "partition", "offset")
STREAM: Final = ("history", "topic", "partition")


def hashed(log: DataFrame) -> DataFrame:
    """The records of the log (columns of the source): topic, partition, offset, hash, more."""
    return log.select(*PLACE, *hashes(F.col("value")))


def fates(events: DataFrame) -> DataFrame:
    """A row for each record of a producer: history, topic, record; `sent`; its hash and more, null if
    unknown; the partition and offset of its acknowledgement, null without one; `denied`, above 0 if its
    producer got the answer that it was not appended."""
    return (
        events.where(F.col("event").isin("sent", "acked", "failed"))
        .repartition("history", "topic", "record")
        .groupBy("history", "topic", "record")
        .agg(
            F.max(F.col("event") == "sent").alias("sent"),
            *(F.max(name).alias(name) for name in ("hash", "more", "partition", "offset", "denied")),
        )
    )


def received(events: DataFrame) -> DataFrame:
    """The records that readers received: history, topic, partition, offset, seq, hash, more."""
    return events.where("event = 'received'").select(*STREAM, "offset", "seq", "hash", "more")


def witnesses(fates: DataFrame, received: DataFrame) -> DataFrame:
    """Claims about values at positions: topic, partition, offset, history, `received` (else it was
    acknowledged), number (of the record, or of the line), hash and more."""
    acked = fates.where("offset >= 0").withColumnRenamed("record", "number")
    given = received.withColumnRenamed("seq", "number")
    columns = [*PLACE, "history", "number", "hash", "more"]
    return (
        acked.select(*columns, F.lit(False).alias("received"))
        .unionByName(given.select(*columns, F.lit(True).alias("received")))
    )  # fmt: skip


def strange(witnesses: DataFrame, log: DataFrame) -> DataFrame:
    """The witnesses that the log does not confirm, with `logged`: the log has another value there."""
    there = log.select(*PLACE, F.col("hash").alias("log_hash"), F.col("more").alias("log_more"))
    return (
        witnesses.join(there, list(PLACE), "left")
        .where("log_hash is null or hash != log_hash or more != log_more")
        .withColumn("logged", F.col("log_hash").isNotNull())
        .drop("log_hash", "log_more")
    )


def odd_values(fates: DataFrame, log: DataFrame) -> DataFrame:
    """The sent values that may be wrong: topic, hash, more, and how often each is `logged`, was `sent`, was
    `denied`, and was acknowledged without a position (`unplaced`)."""
    none, one = F.lit(0), F.lit(1)
    counts = ("logged", "sent", "denied", "unplaced")
    counted = (
        log.select(*VALUE, one.alias("logged"), *(none.alias(name) for name in counts[1:]))
        .unionByName(
            fates.where("sent").select(
                *VALUE,
                none.alias("logged"),
                one.alias("sent"),
                F.when(F.col("denied") > 0, 1).otherwise(0).alias("denied"),
                F.when(F.col("offset") < 0, 1).otherwise(0).alias("unplaced"),
            )
        )
        .repartition(*VALUE)
        .groupBy(*VALUE)
        .agg(*(F.sum(name).alias(name) for name in counts))
    )  # fmt: skip
    return counted.where(
        "sent > 0 and (logged > sent or denied = sent or sent > 1 or (unplaced > 0 and logged = 0))"
    )


def sends(fates: DataFrame) -> DataFrame:
    """The acknowledged records of producers, for `steps`: history, topic, partition, offset, and the record
    as `number`."""
    return fates.where("offset >= 0").select(*STREAM, "offset", F.col("record").alias("number"))


def reads(events: DataFrame, received: DataFrame) -> DataFrame:
    """The records that readers received, and their new starts (without offset), for `steps`."""
    begun = events.where("event = 'assigned'").select(
        "history", "topic", F.explode("partitions").alias("partition"), F.col("seq").alias("number")
    )
    given = received.select(*STREAM, "offset", F.col("seq").alias("number"))
    return given.unionByName(begun.withColumn("offset", F.lit(None).cast("bigint")))


def steps(rows: DataFrame, stretch: int) -> DataFrame:
    """Each row of `sends` or `reads` with an offset, with the previous row of its stream if that has an
    offset too: its offset as `before`, its number as `earlier`.

    A stream may be as long as the log. So it is cut into stretches of numbers, and one window handles the
    rows of a stretch; another window handles the first and last row of each stretch.
    """
    cut = rows.withColumn("stretch", F.floor(F.col("number") / stretch))
    within = Window.partitionBy(*STREAM, "stretch").orderBy("number")
    inner = cut.select(
        *STREAM,
        "number",
        "offset",
        F.lag("offset").over(within).alias("before"),
        F.lag("number").over(within).alias("earlier"),
    )
    edges = cut.groupBy(*STREAM, "stretch").agg(
        F.min("number").alias("number"),
        F.min_by("offset", "number").alias("offset"),
        F.max("number").alias("last_number"),
        F.max_by("offset", "number").alias("last_offset"),
    )
    between = Window.partitionBy(*STREAM).orderBy("stretch")
    outer = edges.select(
        *STREAM,
        "number",
        "offset",
        F.lag("last_offset").over(between).alias("before"),
        F.lag("last_number").over(between).alias("earlier"),
    )
    return inner.unionByName(outer).where("offset is not null and before is not null")


def passed_over(gaps: DataFrame, log: DataFrame, spans: DataFrame, stretch: int) -> DataFrame:
    """The records of the log in gaps (history, topic, partition, before, after; both ends excluded), found by
    the stretches of offsets that a gap touches."""
    clipped = (
        gaps.join(F.broadcast(spans), ["topic", "partition"])
        .withColumn("low", F.greatest(F.col("before") + 1, F.col("start")))
        .withColumn("high", F.least(F.col("after"), F.col("end")) - 1)
        .where("low <= high")
    )
    touched = clipped.select(
        *STREAM,
        "before",
        "after",
        F.explode(F.sequence(*(F.floor(F.col(name) / stretch) for name in ("low", "high")))).alias("block"),
    )
    return (
        log.select(*PLACE, F.floor(F.col("offset") / stretch).alias("block"))
        .join(touched, ["topic", "partition", "block"])
        .where("offset > before and offset < after")
        .drop("block")
    )


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames with the same columns."""
    return reduce(DataFrame.unionByName, frames)
