"""How long requests for state changes take, how many wait, and which never ended: from `__state_changes`.

docs/run/state-changes.md has the records. A record may be in the log twice: of one (id, state) the
first counts. Times are milliseconds since 1970, each by the clock of who did the step; where clocks differ
so much that an end lies before its begin, that took 0 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from strandline.ids import STATE_CHANGES_TOPIC
from strandline.pipeline.jobs.records import kept, records, said_by_spark

QUEUED: Final = ("start-replica", "close-replica", "delete-replica")
"""Commands that wait in the queue of a broker."""
REASSIGN: Final = "reassign-replicas"
ENDS: Final = ("completed", "superseded", "failed")
STEPS_MAX: Final = 1_000
"""Of the backlog of a broker, in each of which two may stay, where it is shown."""

SPANS: Final = {
    "wait": ("requested_ms", "received_ms"),
    "work": ("received_ms", "ended_ms"),
    "total": ("requested_ms", "ended_ms"),
}
"""What is measured of a life: from when until when. Of work and total only what was completed counts."""

_EVENT: Final = (
    "id string, command string, topic string, partition int, broker int, state string, at bigint, "
    "reason string"
)


def steps(records: DataFrame) -> DataFrame:
    """One row for each (id, state) in the records of the topic: id, state, command, topic, partition, broker,
    at_ms, reason. What is no event is passed over."""
    parsed = records.select(
        F.col("partition").alias("lane"),
        F.col("offset"),
        F.from_json(F.col("value").cast("string"), _EVENT).alias("event"),
    )
    known = parsed.where("event.id is not null and event.state is not null and event.at is not null")
    first = known.groupBy(F.col("event.id").alias("id"), F.col("event.state").alias("state")).agg(
        F.min_by("event", F.struct("lane", "offset")).alias("event")
    )
    told = [F.col(f"event.{name}").alias(name) for name in ("command", "topic", "partition", "broker")]
    return first.select("id", "state", *told, F.col("event.at").alias("at_ms"), F.col("event.reason"))


def lives(steps: DataFrame) -> DataFrame:
    """One row for each request: id, command, broker, topic, partition, requested_ms, received_ms, ended_ms,
    end (completed, superseded or failed) and reason, each null if it is not known.

    What happened by itself, such as an election, was requested by nobody and is left out.
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
    p50, p95 and max in milliseconds (wait_p50_ms, …), null where nothing was measured; and backwards: of how
    many a step lies before the one it follows, for clocks differ."""
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

    Reassignments wait in no queue, and requests whose begin is not in the log any more count for nothing.
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
    """Not more than two steps in each of `steps_max` spans of the time of a broker: the highest one, and the
    last one. So peaks stay, and what is drawn ends where it did."""
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
    """One row for each broker: the longest that its queue was (waiting_max), since when (at_ms), and what
    waits now."""
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


# --- all of it -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """What is shown: rows of the functions of these names. `open` is how many requests have no end, of which
    `unended` has the oldest; `backwards` how many have a step before the one it follows."""

    latencies: list[Row]
    backlog: list[Row]
    peaks: list[Row]
    unended: list[Row]
    open: int
    backwards: int


def run(spark: SparkSession, bootstrap: str, now_ms: int, unended_max: int) -> Lifecycle:
    """Look at the topic as it is now. Raises JobFailed."""
    with (
        said_by_spark(),
        kept(lives(steps(records(spark, bootstrap, STATE_CHANGES_TOPIC)))) as told,
        kept(backlog(told)) as waiting,
    ):
        by_broker = latencies(told).collect()
        return Lifecycle(
            by_broker,
            thinned(waiting, STEPS_MAX).orderBy("broker", "at_ms").collect(),
            peaks(waiting).collect(),
            unended(told, now_ms).limit(unended_max).collect(),
            sum(row.open for row in by_broker),
            sum(row.backwards for row in by_broker),
        )
