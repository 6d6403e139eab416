"""The checks of `strandline.auditing`, as DataFrames of findings: the same findings as `reference.py`, for
data that does not fit in memory.

Each returns check, topic, partition, offset and detail, limited to a number of rows: a million findings have
one cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from strandline.auditing import checks
from strandline.auditing.checks import Check
from strandline.pipeline.jobs import audit_facts as facts
from strandline.pipeline.jobs.audit_facts import PLACE, STREAM, VALUE
from strandline.pipeline.jobs.history_events import DENIED

COLUMNS: Final = ("check", *PLACE, "detail")


@dataclass(frozen=True, slots=True)
class Known:
    """The audited data. `events`, `log` (hashed), `fates`, `strange` and `odd` are used several times and
    should be persisted. `spans`: topic, partition, start, end."""

    events: DataFrame
    log: DataFrame
    spans: DataFrame
    fates: DataFrame
    strange: DataFrame
    odd: DataFrame
    names: Sequence[str]
    most: int
    stretch: int

    def name(self, history: Column) -> Column:
        """The name of a history in findings."""
        names = F.split(F.lit("\0".join(self.names)), r"\x00")
        return F.element_at(names, history + 1)

    def spanned(self, rows: DataFrame) -> DataFrame:
        """Adds `start` and `end` of the partition's log, 0 if there is none."""
        return rows.join(F.broadcast(self.spans), ["topic", "partition"], "left").fillna(0, ["start", "end"])

    def some(self, rows: DataFrame, *names: str) -> DataFrame:
        """The first `most` rows. They are ordered by unique columns, so that every call returns the same
        ones."""
        return rows.orderBy(*(F.col(name).asc_nulls_first() for name in names)).limit(self.most)

    def finding(self, rows: DataFrame, check: Check, sentence: str, **values: Column) -> DataFrame:
        """Rows of topic, partition and offset, with a sentence about each."""
        found = rows.select(F.lit(check.name).alias("check"), *PLACE, sentence_of(sentence, **values))
        return self.some(found, *COLUMNS[1:]).distinct()


def sentence_of(template: str, **values: Column) -> Column:
    """A sentence of `strandline.auditing.checks`, with names in braces replaced by columns, as `detail`."""
    parts: list[Column] = []
    for text, name, _, _ in Formatter().parse(template):
        parts.append(F.lit(text))
        if name is not None:
            parts.append(values[name].cast("string"))
    return F.concat(*parts).alias("detail")


def all_findings(known: Known) -> list[DataFrame]:
    """A DataFrame for each kind of finding."""
    return [
        not_in_log(known),
        nowhere_in_log(known),
        duplicated(known),
        sent_out_of_order(known),
        *read_out_of_order(known),
        denied_in_log(known),
        denied_received(known),
        otherwise_than_log(known),
        disagreeing(known),
        watermark_too_low(known),
        beyond_end(known),
        ambiguous(known),
    ]


# --- lost -------------------------------------------------------------------------------------


def not_in_log(known: Known) -> DataFrame:
    missing = known.spanned(known.strange.where("not received and not logged")).where("offset >= start")
    return known.finding(
        missing,
        checks.LOST,
        checks.NOT_IN_LOG,
        record=F.col("number"),
        history=known.name(F.col("history")),
        start=F.col("start"),
        end=F.col("end"),
    )


def nowhere_in_log(known: Known) -> DataFrame:
    missing = known.odd.where("unplaced > 0 and logged = 0").select(*VALUE)
    unplaced = known.spanned(known.fates.where("sent and offset < 0")).where("start = 0")
    return known.finding(
        unplaced.join(missing, list(VALUE), "left_semi").withColumn("offset", F.lit(None).cast("bigint")),
        checks.LOST,
        checks.NOWHERE_IN_LOG,
        record=F.col("record"),
        history=known.name(F.col("history")),
    )


# --- by value ---------------------------------------------------------------------------------


def _senders(known: Known, values: DataFrame) -> DataFrame:
    """The senders of a few values: topic, hash, more, history, record, denied."""
    sent = known.fates.where("sent").select(*VALUE, "history", "record", "denied")
    return sent.join(F.broadcast(values.select(*VALUE).distinct()), list(VALUE))


def _places(known: Known, values: DataFrame) -> DataFrame:
    """The positions of a few values in the log: topic, hash, more, partition, offset."""
    return known.log.join(F.broadcast(values.select(*VALUE)), list(VALUE))


def duplicated(known: Known) -> DataFrame:
    values = known.some(known.odd.where("logged > sent"), *VALUE)
    places = _places(known, values)
    first = places.groupBy(*VALUE).agg(F.min(F.struct("partition", "offset")).alias("first"))
    sender = _senders(known, values).groupBy(*VALUE).agg(F.min(F.struct("history", "record")).alias("sender"))
    again = places.join(first, list(VALUE)).where("struct(partition, offset) != first")
    return known.finding(
        again.join(sender, list(VALUE)),
        checks.DUPLICATED,
        checks.ALSO_ELSEWHERE,
        record=F.col("sender.record"),
        history=known.name(F.col("sender.history")),
        partition=F.col("first.partition"),
        offset=F.col("first.offset"),
    )


def ambiguous(known: Known) -> DataFrame:
    senders = _senders(known, known.some(known.odd.where("sent > 1"), *VALUE))
    who = F.struct("history", "record")
    pairs = senders.groupBy(*VALUE).agg(F.min(who).alias("one"), F.max(who).alias("other"))
    nowhere = pairs.withColumns({"partition": F.lit(None).cast("int"), "offset": F.lit(None).cast("bigint")})
    return known.finding(
        nowhere,
        checks.AMBIGUOUS,
        checks.SENT_TWICE,
        record=F.col("one.record"),
        history=known.name(F.col("one.history")),
        other_record=F.col("other.record"),
        other=known.name(F.col("other.history")),
    )


def _outcome() -> Column:
    return F.element_at(
        F.create_map(*(F.lit(each) for pair in DENIED.items() for each in pair[::-1])),
        F.col("denied").cast("int"),
    )


def denied_in_log(known: Known) -> DataFrame:
    values = known.some(known.odd.where("denied = sent and logged > 0"), *VALUE)
    return known.finding(
        _places(known, values).join(_senders(known, values), list(VALUE)),
        checks.ABORTED,
        checks.DENIED_IN_LOG,
        record=F.col("record"),
        history=known.name(F.col("history")),
        outcome=_outcome(),
    )


def denied_received(known: Known) -> DataFrame:
    """Values that are also in the log are reported by `denied_in_log`."""
    given = known.strange.where("received").withColumnRenamed("history", "reader")
    denied = known.odd.where("denied = sent").select(*VALUE)
    found = known.some(given.join(denied, list(VALUE), "left_semi"), *PLACE, "reader", "hash", "more")
    return known.finding(
        found.select(*PLACE, "hash", "more", "reader").join(_senders(known, found), list(VALUE)),
        checks.ABORTED,
        checks.DENIED_RECEIVED,
        record=F.col("record"),
        history=known.name(F.col("history")),
        outcome=_outcome(),
        reader=known.name(F.col("reader")),
    )


# --- by position ------------------------------------------------------------------------------


def otherwise_than_log(known: Known) -> DataFrame:
    differing = known.strange.where("logged")
    history = known.name(F.col("history"))
    acked = differing.where("not received")
    given = differing.where("received")
    return known.finding(
        acked, checks.INCONSISTENT, checks.ACKED_OTHERWISE, record=F.col("number"), history=history
    ).unionByName(known.finding(given, checks.INCONSISTENT, checks.RECEIVED_OTHERWISE, history=history))


def disagreeing(known: Known) -> DataFrame:
    """Positions that the log lacks: the first witness with a value, and the first with another one."""
    unlogged = known.strange.where("not logged and hash is not null")
    first = unlogged.groupBy(*PLACE).agg(
        F.min(F.struct("history", "received", "number", "hash", "more")).alias("first")
    )
    others = (
        unlogged.join(first, list(PLACE))
        .where("hash != first.hash or more != first.more")
        .groupBy(*PLACE)
        .agg(
            F.min(F.struct("history", "received", "number")).alias("other"),
            F.min("first.history").alias("history"),
        )
    )
    return known.finding(
        others,
        checks.INCONSISTENT,
        checks.DISAGREEING,
        history=known.name(F.col("history")),
        other=known.name(F.col("other.history")),
    )


# --- by order ---------------------------------------------------------------------------------


def sent_out_of_order(known: Known) -> DataFrame:
    steps = facts.steps(facts.sends(known.fates), known.stretch)
    return known.finding(
        steps.where("offset < before"),
        checks.REORDERED,
        checks.SENT_OUT_OF_ORDER,
        record=F.col("number"),
        history=known.name(F.col("history")),
        earlier=F.col("earlier"),
        offset=F.col("before"),
    )


def read_out_of_order(known: Known) -> list[DataFrame]:
    """Reads that went back or repeated an offset, and records that were skipped."""
    steps = facts.steps(facts.reads(known.events, facts.received(known.events)), known.stretch)
    history = known.name(F.col("history"))
    back = steps.where("offset <= before")
    gaps = steps.where("offset > before + 1").select(*STREAM, "before", F.col("offset").alias("after"))
    unseen = facts.passed_over(gaps, known.log, known.spans, known.stretch)
    return [
        known.finding(
            back, checks.REORDERED, checks.READ_OUT_OF_ORDER, history=history, offset=F.col("before")
        ),
        known.finding(
            unseen,
            checks.UNSEEN,
            checks.PASSED_OVER,
            history=history,
            before=F.col("before"),
            after=F.col("after"),
        ),
    ]


def watermark_too_low(known: Known) -> DataFrame:
    """Watermarks below what the reader already knew; there are few watermark events."""
    watermarks = known.events.where("event = 'watermark'")
    before = Window.partitionBy(*STREAM).orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
    certain = F.greatest(F.col("proven"), F.max("offset").over(before))
    return known.finding(
        watermarks.withColumn("known", certain).where("offset < known"),
        checks.WATERMARK,
        checks.WATERMARK_TOO_LOW,
        history=known.name(F.col("history")),
        watermark=F.col("offset"),
        known=F.col("known"),
    )


def beyond_end(known: Known) -> DataFrame:
    """The highest received offset of each reader and partition."""
    highest = facts.received(known.events).groupBy(*STREAM).agg(F.max("offset").alias("offset"))
    return known.finding(
        known.spanned(highest).where("offset >= end"),
        checks.WATERMARK,
        checks.BEYOND_END,
        history=known.name(F.col("history")),
        end=F.col("end"),
    )
