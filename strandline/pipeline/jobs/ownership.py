"""Computes the owners of partitions over time, gaps without an owner, and overlaps, from `__group_events`.

docs/use/groups.md has the records. All events of a group are in one partition of the topic, in the order of
its coordinator's decisions. An event may occur twice, as the same line: the second one is dropped.

**Clocks.** Decisions of the coordinator have its time. Actions of a member have the member's time, whose
clock may be arbitrarily wrong. But they happened in a generation, after it was stable and before the next one
began, and before the coordinator recorded them: each time is clamped to these bounds, all by the
coordinator's clock. Correct clocks are not affected; for others the result never contains an impossible time.

**Limits.** An expelled process that hangs believes for a while that it is still an owner: the events have the
coordinator's view, in which it is not. An end that was never recorded, because the coordinator was killed
with it, leaves an extra owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from strandline.errors import GroupIdNotFound
from strandline.ids import GROUP_EVENTS_TOPIC
from strandline.pipeline.core.connection import Connection
from strandline.pipeline.jobs.records import kept, records, spark_errors

VERSION: Final = 1
REVOKED, LOST, LEFT = "revoked", "lost", "member_left"
_ENDS: Final = (REVOKED, LOST, LEFT)

_EVENT: Final = (
    "version int, event string, group string, generation bigint, at_ms bigint, member string, reason string, "
    "caused_by string, partitions map<string, array<int>>"
)
_PARTITION: Final = ("group", "topic", "partition")
_MEMBER: Final = "…"


def group_events(records: DataFrame, group: str | None = None) -> DataFrame:
    """One row for each event in the records of the topic, of one group or all: offset, event, group,
    generation, at_ms, member, reason, caused_by, partitions; recorded_ms is when the coordinator recorded it.

    Task events are left out, and records that are no event of this version.
    """
    once = records.groupBy("value").agg(
        F.min_by(F.struct("offset", "timestamp"), "offset").alias("first"),
    )
    parsed = once.select(
        "first.offset",
        F.unix_millis("first.timestamp").alias("recorded_ms"),
        F.from_json(F.col("value").cast("string"), _EVENT).alias("parsed"),
    ).select("offset", "recorded_ms", "parsed.*")
    known = parsed.where(
        (F.col("version") == VERSION)
        & F.col("event").isNotNull()
        & F.col("group").isNotNull()
        & F.col("generation").isNotNull()
        & F.col("at_ms").isNotNull()
        & ~F.col("event").startswith("task_")
    )
    return known if group is None else known.where(F.col("group") == group)


# --- times ----------------------------------------------------------------------------------


def generations(events: DataFrame) -> DataFrame:
    """When each generation of a group was stable, and when the next generation began: group, generation,
    stable_ms, next_started_ms, by the coordinator's clock; null if unknown."""

    def first(event: str) -> Column:
        return F.min(F.when(F.col("event") == event, F.col("at_ms")))

    each = events.groupBy("group", "generation").agg(
        first("generation_started").alias("started_ms"), first("generation_stable").alias("stable_ms")
    )
    later = (
        Window.partitionBy("group").orderBy(F.desc("generation")).rowsBetween(Window.unboundedPreceding, -1)
    )
    next_started = F.last("started_ms", ignorenulls=True).over(later)
    return each.select("group", "generation", "stable_ms", next_started.alias("next_started_ms"))


def moments(events: DataFrame) -> DataFrame:
    """Ownership events by the coordinator's clock: group, topic, partition, member, event (assigned, revoked,
    lost, member_left), at_ms, generation, reason, offset.

    A member that left has an event for every partition that it ever had.
    """
    bounds = generations(events)
    latest = F.least(
        F.coalesce("recorded_ms", "at_ms"), F.coalesce("next_started_ms", "recorded_ms", "at_ms")
    )
    at = F.least(latest, F.greatest("at_ms", F.coalesce("stable_ms", "at_ms")))
    placed = events.join(bounds, ["group", "generation"]).withColumn("at_ms", at)
    columns = [*_PARTITION, "member", "event", "at_ms", "generation", "reason", "offset"]
    of_topics = placed.where(F.col("event").isin("assigned", REVOKED, LOST)).select(
        "*", F.explode("partitions").alias("topic", "numbers")
    )
    changes = of_topics.select("*", F.explode("numbers").alias("partition")).select(*columns)
    had = changes.where("event = 'assigned'").select(*_PARTITION, "member").distinct()
    left = placed.where(F.col("event") == LEFT).join(had, ["group", "member"]).select(*columns)
    return changes.unionAll(left)


# --- owners ----------------------------------------------------------------------------------


def timeline(moments: DataFrame) -> DataFrame:
    """One row for each time that a member owned a partition: group, topic, partition, owner, from_ms, to_ms,
    ended (revoked, lost, member_left), reason, generation.

    `from_ms` is null if it began before the log, `to_ms` and `ended` if it has not ended.
    """
    of_member = Window.partitionBy(*_PARTITION, "member").orderBy("offset")
    before = F.lag("event").over(of_member)
    begins = (F.col("event") == "assigned") & (before.isNull() | (before != "assigned"))
    # The first of several consecutive ends counts; a member_left without a begin is no end.
    ends = F.col("event").isin(*_ENDS) & (
        (before == "assigned") | (before.isNull() & (F.col("event") != LEFT))
    )
    kept = moments.withColumn("is_begin", begins).withColumn("is_end", ends).where("is_begin or is_end")

    def following(name: str) -> Column:
        return F.when(F.col("is_begin"), F.lead(name).over(of_member)).otherwise(F.col(name))

    rows = kept.select(
        *_PARTITION,
        F.col("member").alias("owner"),
        F.when(F.col("is_begin"), F.col("at_ms")).alias("from_ms"),
        following("at_ms").alias("to_ms"),
        following("event").alias("ended"),
        following("reason").alias("reason"),
        "generation",
        "is_begin",
        F.lag("is_begin", 1, False).over(of_member).alias("has_begin"),
    )
    whole = rows.where("is_begin or not has_begin").drop("is_begin", "has_begin")
    # An end must not precede its begin, even if two coordinators' clocks differ.
    return whole.withColumn(
        "to_ms", F.when(F.col("to_ms").isNotNull(), F.greatest("to_ms", F.coalesce("from_ms", "to_ms")))
    )


def owned_by(timeline: DataFrame) -> DataFrame:
    """The number of owners of each partition between changes: group, topic, partition, from_ms, to_ms (null:
    until now), owners. It begins with the first owner whose begin is known.

    A release and a begin in the same millisecond do not overlap.
    """
    known = timeline.where("from_ms is not null and (to_ms is null or to_ms > from_ms)")
    came = known.select(*_PARTITION, F.col("from_ms").alias("at_ms"), F.lit(1).alias("change"))
    went = known.where("to_ms is not null").select(
        *_PARTITION, F.col("to_ms").alias("at_ms"), F.lit(-1).alias("change")
    )
    changes = came.unionAll(went).groupBy(*_PARTITION, "at_ms").agg(F.sum("change").alias("change"))
    in_time = Window.partitionBy(*_PARTITION).orderBy("at_ms")
    so_far = in_time.rowsBetween(Window.unboundedPreceding, 0)
    return changes.select(
        *_PARTITION,
        F.col("at_ms").alias("from_ms"),
        F.lead("at_ms").over(in_time).alias("to_ms"),
        F.sum("change").over(so_far).alias("owners"),
    )


def overlaps(timeline: DataFrame) -> DataFrame:
    """Times at which a partition had two owners or more: group, topic, partition, from_ms, to_ms (null: until
    now), owners (their ids)."""
    shared = owned_by(timeline).where("owners > 1").drop("owners")
    owners = timeline.select(
        *_PARTITION, "owner", F.col("from_ms").alias("began_ms"), F.col("to_ms").alias("ended_ms")
    )
    both = shared.join(owners, list(_PARTITION)).where(
        "began_ms <= from_ms and (ended_ms is null or ended_ms > from_ms)"
    )
    return (
        both.groupBy(*_PARTITION, "from_ms", "to_ms")
        .agg(F.sort_array(F.collect_set("owner")).alias("owners"))
        # A single member with wrong times may overlap with itself, which does not count.
        .where(F.size("owners") > 1)
        .orderBy("from_ms", *_PARTITION)
    )


def empty_times(events: DataFrame) -> DataFrame:
    """Times at which a group had no members: empty_group, empty_from_ms, empty_to_ms (null: until now).

    An empty group is a generation of its own without a start event.
    """
    turns = events.where(F.col("event").isin("generation_started", "generation_ended"))
    in_order = Window.partitionBy("group").orderBy("offset")
    following = turns.select(
        "group",
        "event",
        "generation",
        F.col("at_ms").alias("empty_from_ms"),
        F.lead("at_ms").over(in_order).alias("empty_to_ms"),
        F.lead("generation").over(in_order).alias("next_generation"),
    )
    return following.where(
        "event = 'generation_ended' and (next_generation is null or next_generation > generation + 1)"
    ).select(F.col("group").alias("empty_group"), "empty_from_ms", "empty_to_ms")


def gaps(timeline: DataFrame, events: DataFrame) -> DataFrame:
    """Times at which a partition had no owner after its first one: group, topic, partition, from_ms, to_ms
    (null: until now), unowned_ms: the duration up to the last event, without the time in which its group had
    no members."""
    last = events.groupBy("group").agg(F.max("at_ms").alias("last_ms"))
    free = owned_by(timeline).where("owners = 0").drop("owners").join(last, "group")
    end = F.greatest("from_ms", F.coalesce("to_ms", "last_ms"))
    beside = free.join(
        empty_times(events),
        (F.col("group") == F.col("empty_group"))
        & (F.col("empty_from_ms") < end)
        & (F.coalesce("empty_to_ms", "last_ms") > F.col("from_ms")),
        "left",
    )
    # Spark's least and greatest ignore nulls.
    both = F.when(
        F.col("empty_from_ms").isNotNull(),
        F.least(end, F.coalesce("empty_to_ms", "last_ms")) - F.greatest("from_ms", "empty_from_ms"),
    )
    return (
        beside.groupBy(*_PARTITION, "from_ms", "to_ms", "last_ms")
        .agg(F.coalesce(F.sum(both), F.lit(0)).alias("empty_ms"))
        .select(
            *_PARTITION, "from_ms", "to_ms", (end - F.col("from_ms") - F.col("empty_ms")).alias("unowned_ms")
        )
        .orderBy(*_PARTITION, "from_ms")
    )


def partitions(timeline: DataFrame, gaps: DataFrame) -> DataFrame:
    """One row for each partition: group, topic, partition, owners (number of different owners), changes
    (number of assignments), owner (the present one, or null), unowned_ms and unowned_max_ms."""
    free = gaps.groupBy(*_PARTITION).agg(
        F.sum("unowned_ms").alias("unowned_ms"), F.max("unowned_ms").alias("unowned_max_ms")
    )
    owned = timeline.groupBy(*_PARTITION).agg(
        F.count_distinct("owner").alias("owners"),
        F.count("*").alias("changes"),
        F.max_by(
            F.when(F.col("to_ms").isNull(), F.col("owner")),
            F.struct(F.col("to_ms").isNull(), F.coalesce("from_ms", "to_ms")),
        ).alias("owner"),
    )
    return (
        owned.join(free, list(_PARTITION), "left")
        .fillna(0, ["unowned_ms", "unowned_max_ms"])
        .orderBy(*_PARTITION)
    )


# --- rebalances ------------------------------------------------------------------------------


def rebalances(events: DataFrame) -> DataFrame:
    """One row for each rebalance: group, generation (which it ended), from_ms, to_ms, duration_ms, reason
    (with … for the id of the member that caused it), caused_by.

    `to_ms` is when the next generation was stable; null if another rebalance came before, or the group was
    then empty.
    """
    turns = events.where(F.col("event").isin("rebalance_started", "generation_stable"))
    in_order = Window.partitionBy("group").orderBy("offset")
    stable = F.lead("event").over(in_order) == "generation_stable"
    who = F.col("caused_by")
    reason = F.when(who.isNotNull(), F.replace(F.col("reason"), who, F.lit(_MEMBER))).otherwise(
        F.col("reason")
    )
    following = turns.select(
        "group",
        "event",
        "generation",
        F.col("at_ms").alias("from_ms"),
        F.when(stable, F.greatest("at_ms", F.lead("at_ms").over(in_order))).alias("to_ms"),
        reason.alias("reason"),
        "caused_by",
    )
    return (
        following.where("event = 'rebalance_started'")
        .drop("event")
        .withColumn("duration_ms", F.col("to_ms") - F.col("from_ms"))
    )


def by_reason(rebalances: DataFrame) -> DataFrame:
    """One row for each reason: group, reason, rebalances, finished, and p50_ms, max_ms and total_ms of the
    finished ones."""
    return (
        rebalances.groupBy("group", "reason")
        .agg(
            F.count("*").alias("rebalances"),
            F.count("duration_ms").alias("finished"),
            F.percentile("duration_ms", 0.5).alias("p50_ms"),
            F.max("duration_ms").alias("max_ms"),
            F.coalesce(F.sum("duration_ms"), F.lit(0)).alias("total_ms"),
        )
        .orderBy("group", F.desc("rebalances"), "reason")
    )


# --- the whole job ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ownership:
    """The results: rows of the functions of these names. `last_ms` is the time of the last event, 0 without
    any."""

    timeline: list[Row]
    overlaps: list[Row]
    gaps: list[Row]
    partitions: list[Row]
    rebalances: list[Row]
    reasons: list[Row]
    last_ms: int


def run(spark: SparkSession, cluster: Connection, group: str | None = None) -> Ownership:
    """Evaluate the present topic, for one group or all. Raises GroupIdNotFound for a group without events,
    JobFailed."""
    with (
        spark_errors(),
        kept(group_events(records(spark, cluster, GROUP_EVENTS_TOPIC), group)) as events,
        kept(timeline(moments(events))) as owned,
        kept(gaps(owned, events)) as free,
        kept(rebalances(events)) as turns,
    ):
        (last,) = events.agg(
            F.coalesce(F.max(F.least("at_ms", "recorded_ms")), F.lit(0)).alias("ms")
        ).collect()
        if group is not None and not last.ms:
            raise GroupIdNotFound(f"nothing has happened to a group {group!r}")
        return Ownership(
            owned.orderBy(*_PARTITION, "from_ms", "to_ms").collect(),
            overlaps(owned).collect(),
            free.collect(),
            partitions(owned, free).collect(),
            turns.orderBy("from_ms", "group").collect(),
            by_reason(turns).collect(),
            last.ms,
        )
