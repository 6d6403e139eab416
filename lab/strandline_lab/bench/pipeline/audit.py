"""Measures an audit: 10 million records of two producers, all acknowledged and all read once.

Spark makes the records and the events itself, so only the audit is measured. The last table has the cost of
reading a history as JSON lines.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from strandline.adapters.system.clock import SystemClock
from strandline.auditing.reference import Span
from strandline_lab.bench.report import RUNS, heading, median_of, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS: Final = 10_000_000
LINES: Final = 2_000_000
LINE_BYTES: Final = 130
"""The size of a line of a history, roughly."""
PARTITIONS: Final = 8
TOPIC: Final = "audited"
NAMES: Final = ("producer-0", "producer-1", "reader")
MASTER: Final = "local[2]"
MEMORY: Final = "1g"
"""Memory of the whole session: Spark's own default, and less than `session` would take."""


async def measure(runs: int = RUNS) -> None:
    """Prints the tables."""
    from strandline.pipeline.spark.session import session

    spark = session(MASTER, "bench", **{"spark.driver.memory": MEMORY})
    try:
        heading(
            f"Audit {RECORDS / 1e6:.0f} million records, sent, acknowledged and read, {MASTER}",
            "pipeline_audit",
        )
        rows = []
        for name, work in (("audit", audited), ("group the events by their values", grouped)):
            seconds = [work(spark) for _ in range(runs)]
            rows.append([name, median_of(seconds), median_of([RECORDS / each for each in seconds])])
        table(("", "s", "records/s"), rows)
        heading("Read histories, JSON lines", "pipeline_audit")
        rates = [read(spark) for _ in range(runs)]
        table(("", "lines/s"), [["read", median_of(rates)]])
    finally:
        spark.stop()


def records(spark: SparkSession) -> DataFrame:
    """The log: record n has offset n // 8 in partition n % 8, and a value of its own."""
    return spark.range(RECORDS).selectExpr(
        f"'{TOPIC}' AS topic",
        f"int(id % {PARTITIONS}) AS partition",
        f"id div {PARTITIONS} AS offset",
        "binary(concat('a-', id)) AS value",
    )


def events(spark: SparkSession) -> DataFrame:
    """The events that `read_events` would return for the histories of two producers and a reader."""
    from pyspark.sql import functions as F

    from strandline.pipeline.jobs.history_events import KEPT, hashes

    known = {
        "sent": ("record", "hash", "more"),
        "acked": ("record", "partition", "offset"),
        "received": ("partition", "offset", "hash", "more"),
        "assigned": ("partitions",),
    }
    every = F.array(*(F.lit(name) for name in ("sent", "acked", "received")))
    numbered = records(spark).withColumn("record", F.col("offset") * PARTITIONS + F.col("partition"))
    recorded = numbered.withColumn("event", F.explode(every)).select("*", *hashes(F.col("value")))
    begun = (
        records(spark).limit(1).withColumn("event", F.lit("assigned"))
        .withColumns({"record": F.lit(-1).cast("bigint"), "hash": F.lit(0), "more": F.lit(0)})
        .select(recorded.columns)
    )  # fmt: skip
    facts = recorded.unionByName(begun).withColumns(
        {
            "history": F.when(F.col("event").isin("sent", "acked"), F.col("partition") % 2).otherwise(2),
            "seq": 2 * F.col("record") + F.when(F.col("event") == "acked", 2).otherwise(1),
            "proven": F.lit(None).cast("bigint"),
            "denied": F.lit(0).cast("tinyint"),
            "partitions": F.array(*map(F.lit, range(PARTITIONS))),
        }
    )
    has = {
        name: F.col("event").isin(*(event for event, names in known.items() if name in names))
        for name in ("record", "partition", "offset", "hash", "more", "partitions")
    }
    return facts.select(
        *(F.when(has[name], F.col(name)).alias(name) if name in has else F.col(name) for name in KEPT)
    )


def audited(spark: SparkSession) -> float:
    """Seconds from the clients' events and the log to the findings, of which there are none."""
    from strandline.pipeline.jobs.audit import findings, found, suited
    from strandline.pipeline.jobs.records import ON_DISK, kept

    spans = {(TOPIC, partition): Span(0, RECORDS // PARTITIONS) for partition in range(PARTITIONS)}
    clock = SystemClock()
    began = clock.monotonic()
    with (
        suited(spark, 3 * RECORDS * LINE_BYTES),
        kept(events(spark), ON_DISK) as recorded,
        findings(recorded, records(spark), spans, NAMES) as frame,
    ):
        offenders = found(frame)
    assert offenders == []
    return clock.monotonic() - began


def grouped(spark: SparkSession) -> float:
    """Seconds to keep the clients' events and to read them once, the minimum of any audit on Spark."""
    from strandline.pipeline.jobs.audit import suited
    from strandline.pipeline.jobs.records import ON_DISK, kept

    clock = SystemClock()
    began = clock.monotonic()
    with suited(spark, 3 * RECORDS * LINE_BYTES), kept(events(spark), ON_DISK) as recorded:
        recorded.groupBy("hash", "more").count().write.format("noop").mode("overwrite").save()
    return clock.monotonic() - began


def read(spark: SparkSession) -> float:
    """Lines a second of a producer's history."""
    from pyspark.sql import functions as F

    from strandline.pipeline.jobs.history_events import read_events

    clock = SystemClock()
    with TemporaryDirectory(prefix="pipeline-audit-") as folder:
        lines = spark.range(LINES).select(
            F.to_json(
                F.struct(
                    F.lit("sent").alias("event"),
                    F.col("id").alias("seq"),
                    F.lit(1_700_000_000_000).alias("at"),
                    F.col("id").cast("double").alias("monotonic_ms"),
                    F.col("id").alias("record"),
                    F.lit(TOPIC).alias("topic"),
                    F.concat(F.lit("a-"), F.col("id")).alias("value"),
                )
            )
        )
        lines.coalesce(1).write.text(f"{folder}/lines")
        (path,) = Path(folder, "lines").glob("*.txt")
        began = clock.monotonic()
        with read_events(spark, [path]) as recorded:
            seconds = clock.monotonic() - began
            assert recorded.events.count() == LINES
    return LINES / seconds
