"""Measures the durations, the backlog and the open ends of state-change requests, from `__state_changes`.

docs/run/state-changes.md has the records. A record may be in the log twice: the first of one (id, state)
counts. Times are milliseconds since 1970, by the clock of the process that did the step; if clocks differ
enough for an end to precede its begin, the duration is 0 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from strandline.ids import STATE_CHANGES_TOPIC
from strandline.pipeline.core.connection import Connection
from strandline.pipeline.jobs.records import kept, records, spark_errors

QUEUED: Final = ("start-replica", "close-replica", "delete-replica")
"""Commands that wait in the queue of a broker."""
REASSIGN: Final = "reassign-replicas"
ENDS: Final = ("completed", "superseded", "failed")
STEPS_MAX: Final = 1_000
"""The number of time spans of a broker's backlog when it is shown; each keeps at most two steps."""

SPANS: Final = {
    "wait": ("requested_ms", "received_ms"),
    "work": ("received_ms", "ended_ms"),
    "total": ("requested_ms", "ended_ms"),
}
"""The measured spans of a request, begin and end. Work and total are measured only for completed requests."""

_EVENT: Final = (
    "id string, command string, topic string, partition int, broker int, state string, at bigint, "
    "reason string"
)


def steps(records: DataFrame) -> DataFrame:
    """One row for each (id, state) in the records of the topic: id, state, command, topic, partition, broker,
    at_ms, reason. Records that are no events are skipped."""
    parsed = records.select(
        F.col("partition").alias("log_partition"),
        F.col("offset"),
        F.from_json(F.col("value").cast("string"), _EVENT).alias("event"),
    )
    known = parsed.where("event.id is not null and event.state is not null and event.at is not null")
    first = known.groupBy(F.col("event.id").alias("id"), F.col("event.state").alias("state")).agg(
        F.min_by("event", F.struct("log_partition", "offset")).alias("event")
    )
    facts = [F.col(f"event.{name}").alias(name) for name in ("command", "topic", "partition", "broker")]
    return first.select("id", "state", *facts, F.col("event.at").alias("at_ms"), F.col("event.reason"))


def lives(steps: DataFrame) -> DataFrame:
    """One row for each request: id, command, broker, topic, partition, requested_ms, received_ms, ended_ms,
    end (completed, superseded or failed) and reason, each null if unknown.

    Events without a request, such as elections, are left out.
    """
    asked = steps.where(F.col("command").isin(*QUEUED, REASSIGN))
    ends = F.col("state").isin(*ENDS)

    def at(state: Column) -> Column:
        return F.min(F.when(state, F.col("at_ms")))

    def of_first(name: str) -> Column:
        return F.min_by(name, F.struct("at_ms", "state")).alias(name)

    return asked.groupBy("id").agg(
        *(of_first(name) for name in ("command", "broker", "topic", "partition")),
        at(F.col("state") == "requested").alias("requested_ms"),
        at(F.col("state") == "received").alias("received_ms"),
        at(ends).alias("ended_ms"),
        F.min(F.when(ends, F.col("state"))).alias("end"),
        F.coalesce(
            F.max(F.when(ends, F.col("reason"))),
            F.max(F.when(F.col("state") == "requested", F.col("reason"))),
        ).alias("reason"),
    )


def latencies(lives: DataFrame) -> DataFrame:
    """One row for each broker and command: requests, completed, superseded, failed, open; for each of SPANS
    p50, p95 and max in milliseconds (wait_p50_ms, …), null without a measurement; and backwards: the number
    of requests with a step before its predecessor, because clocks differ."""
    completed = F.col("end") == "completed"
    measured = lives
    for name, (begin, end) in SPANS.items():
        span = F.greatest(F.col(end) - F.col(begin), F.lit(0))
        known = F.col(begin).isNotNull() & F.col(end).isNotNull()
        measured = measured.withColumn(name, F.when(known & (completed | (F.lit(name) == "wait")), span))
    figures = [
        column
        for name in SPANS
        for column in (
            F.percentile(name, 0.5).alias(f"{name}_p50_ms"),
            F.percentile(name, 0.95).alias(f"{name}_p95_ms"),
            F.max(name).alias(f"{name}_max_ms"),
        )
    ]
    backwards = (F.col("received_ms") < F.col("requested_ms")) | (
        F.col("ended_ms") < F.coalesce("received_ms", "requested_ms")
    )
    return (
        measured.groupBy("broker", "command")
        .agg(
            F.count("*").alias("requests"),
            *(F.count_if(F.col("end") == end).alias(end) for end in ENDS),
            F.count_if(F.col("end").isNull()).alias("open"),
            *figures,
            F.count_if(backwards).alias("backwards"),
        )
        .orderBy("broker", "command")
    )


def backlog(lives: DataFrame) -> DataFrame:
    """A step for each time at which the queue of a broker grew or shrank: broker, at_ms, waiting since then.

    Reassignments wait in no queue; requests whose begin is no longer in the log are ignored.
    """
    queued = lives.where(F.col("command").isin(*QUEUED) & F.col("requested_ms").isNotNull())
    came = queued.select("broker", F.col("requested_ms").alias("at_ms"), F.lit(1).alias("change"))
    went = queued.where("ended_ms is not null").select(
        "broker", F.greatest("ended_ms", "requested_ms").alias("at_ms"), F.lit(-1).alias("change")
    )
    changes = came.unionAll(went).groupBy("broker", "at_ms").agg(F.sum("change").alias("change"))
    so_far = Window.partitionBy("broker").orderBy("at_ms").rowsBetween(Window.unboundedPreceding, 0)
    return changes.where("change != 0").select(
        "broker", "at_ms", F.sum("change").over(so_far).alias("waiting")
    )


def thinned(backlog: DataFrame, steps_max: int) -> DataFrame:
    """At most two steps in each of `steps_max` time spans of a broker: the highest one, and the last one. So
    peaks remain, and the end stays the same."""
    by_broker = Window.partitionBy("broker")
    first, last = F.min("at_ms").over(by_broker), F.max("at_ms").over(by_broker)
    width = F.greatest(F.lit(1), F.ceil((last - first + 1) / steps_max))
    spans = backlog.withColumn("span", F.floor((F.col("at_ms") - first) / width))
    in_span = Window.partitionBy("broker", "span")
    highest = F.row_number().over(in_span.orderBy(F.desc("waiting"), "at_ms"))
    newest = F.row_number().over(in_span.orderBy(F.desc("at_ms")))
    return (
        spans.withColumn("highest", highest)
        .withColumn("newest", newest)
        .where("highest = 1 or newest = 1")
        .select("broker", "at_ms", "waiting")
    )


def peaks(backlog: DataFrame) -> DataFrame:
    """One row for each broker: the longest length of its queue (waiting_max), its begin (at_ms), and the
    present length."""
    return (
        backlog.groupBy("broker")
        .agg(
            F.max("waiting").alias("waiting_max"),
            F.min_by("at_ms", F.struct(-F.col("waiting"), F.col("at_ms"))).alias("at_ms"),
            F.max_by("waiting", "at_ms").alias("waiting"),
        )
        .orderBy("broker")
    )


def unended(lives: DataFrame, now_ms: int) -> DataFrame:
    """Requests without an end, the oldest first: id, command, broker, topic, partition, state (the last one
    known), since_ms, age_ms (at `now_ms`), reason."""
    since = F.coalesce("requested_ms", "received_ms")
    return (
        lives.where("end is null")
        .select(
            "id",
            "command",
            "broker",
            "topic",
            "partition",
            F.when(F.col("received_ms").isNotNull(), "received").otherwise("requested").alias("state"),
            since.alias("since_ms"),
            F.greatest(F.lit(now_ms) - since, F.lit(0)).alias("age_ms"),
            "reason",
        )
        .orderBy(F.desc("age_ms"), "id")
    )


# --- the whole job ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The results: rows of the functions of these names. `open` is the number of requests without an end, of
    which `unended` has the oldest; `backwards` the number with a step before its predecessor."""

    latencies: list[Row]
    backlog: list[Row]
    peaks: list[Row]
    unended: list[Row]
    open: int
    backwards: int


def run(spark: SparkSession, cluster: Connection, now_ms: int, unended_max: int) -> Lifecycle:
    """Evaluate the present topic. Raises JobFailed."""
    with (
        spark_errors(),
        kept(lives(steps(records(spark, cluster, STATE_CHANGES_TOPIC)))) as requests,
        kept(backlog(requests)) as waiting,
    ):
        by_broker = latencies(requests).collect()
        return Lifecycle(
            by_broker,
            thinned(waiting, STEPS_MAX).orderBy("broker", "at_ms").collect(),
            peaks(waiting).collect(),
            unended(requests, now_ms).limit(unended_max).collect(),
            sum(row.open for row in by_broker),
            sum(row.backwards for row in by_broker),
        )
