"""What an audit knows, as DataFrames that are as narrow as they can be: what became of records, who says
which value is where, and what followed what.

Values are hashes (`hash`, `more`), histories are numbers. Everything is a join or a grouping that spreads
over all partitions and spills; no row passes through Python.

Where nearly every row has a key of its own, rows are sent to their partition before they are grouped: Spark
would group them where they are first, in vain, with a table in memory that grows with what one task reads.
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
LANE: Final = ("history", "topic", "partition")


def hashed(log: DataFrame) -> DataFrame:
    """The records of the log (columns of the source): topic, partition, offset, hash, more."""
    return log.select(*PLACE, *hashes(F.col("value")))


def fates(events: DataFrame) -> DataFrame:
    """A row for each record of a producer: history, topic, record; `sent`; its hash and more, null if it is
    not known what was sent; the partition and offset of its acknowledgement, null without one; `denied`,
    above 0 if its producer was told that it was not appended."""
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
    """What readers were given: history, topic, partition, offset, seq, hash, more."""
    return events.where("event = 'received'").select(*LANE, "offset", "seq", "hash", "more")


def witnesses(fates: DataFrame, received: DataFrame) -> DataFrame:
    """Who says what is where: topic, partition, offset, history, `received` (else it was acknowledged),
    number (of the record, or of the line), hash and more."""
    acked = fates.where("offset >= 0").withColumnRenamed("record", "number")
    given = received.withColumnRenamed("seq", "number")
    told = [*PLACE, "history", "number", "hash", "more"]
    return (
        acked.select(*told, F.lit(False).alias("received"))
        .unionByName(given.select(*told, F.lit(True).alias("received")))
    )  # fmt: skip


def strange(witnesses: DataFrame, log: DataFrame) -> DataFrame:
    """The witnesses that the log does not bear out, with `logged`: it has another value there, not none."""
    there = log.select(*PLACE, F.col("hash").alias("log_hash"), F.col("more").alias("log_more"))
    return (
        witnesses.join(there, list(PLACE), "left")
        .where("log_hash is null or hash != log_hash or more != log_more")
        .withColumn("logged", F.col("log_hash").isNotNull())
        .drop("log_hash", "log_more")
    )


def odd_values(fates: DataFrame, log: DataFrame) -> DataFrame:
    """The values that were sent, and of which something may be wrong: topic, hash, more, and how often each
    is `logged`, was `sent`, was `denied`, and was acknowledged but not where (`unplaced`)."""
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
    """What producers have acknowledged, for `steps`: history, topic, partition, offset, and the record as
    `number`."""
    return fates.where("offset >= 0").select(*LANE, "offset", F.col("record").alias("number"))


def reads(events: DataFrame, received: DataFrame) -> DataFrame:
    """What readers were given and where they began anew (no offset), for `steps`."""
    begun = events.where("event = 'assigned'").select(
        "history", "topic", F.explode("partitions").alias("partition"), F.col("seq").alias("number")
    )
    given = received.select(*LANE, "offset", F.col("seq").alias("number"))
    return given.unionByName(begun.withColumn("offset", F.lit(None).cast("bigint")))


def steps(rows: DataFrame, stretch: int) -> DataFrame:
    """Each row of `sends` or `reads` that has an offset, with the row before it in its lane if that has one
    too: its offset as `before`, its number as `earlier`.

    A lane may be as long as the log. So it is cut into stretches of so many numbers, in which a window looks
    at rows; another window looks at the first and last of each stretch.
    """
    cut = rows.withColumn("stretch", F.floor(F.col("number") / stretch))
    within = Window.partitionBy(*LANE, "stretch").orderBy("number")
    inner = cut.select(
        *LANE,
        "number",
        "offset",
        F.lag("offset").over(within).alias("before"),
        F.lag("number").over(within).alias("earlier"),
    )
    edges = cut.groupBy(*LANE, "stretch").agg(
        F.min("number").alias("number"),
        F.min_by("offset", "number").alias("offset"),
        F.max("number").alias("last_number"),
        F.max_by("offset", "number").alias("last_offset"),
    )
    between = Window.partitionBy(*LANE).orderBy("stretch")
    outer = edges.select(
        *LANE,
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
        *LANE,
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
    """All rows of frames that have the same columns."""
    return reduce(DataFrame.unionByName, frames)
