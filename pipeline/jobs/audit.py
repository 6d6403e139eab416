"""The audit: what clients saw of topics, held against the topics, however much it is.

`strandline.auditing` says what the checks mean. What is read is read once: the events of the histories and
the log, both without their values, stay on disk until the audit ends. Not in memory: there a task needs what
it has for sorting and grouping, however much there is to audit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.auditing.checks import Finding, in_order
from strandline.auditing.reference import Span, Spans
from strandline.client.admin.admin import Admin
from strandline.errors import InvalidRequest
from strandline.ids import TopicPartition
from strandline.pipeline.core import offsets
from strandline.pipeline.core.options import Selection
from strandline.pipeline.jobs import audit_facts as facts
from strandline.pipeline.jobs.audit_checks import COLUMNS, Known, all_findings
from strandline.pipeline.jobs.history_events import read_events
from strandline.pipeline.jobs.records import ON_DISK, kept, records, said_by_spark
from strandline.pipeline.loop_thread import call
from strandline.pipeline.reading.cluster_facts import ClusterFacts

MOST: Final = 100
"""Findings of each kind that are looked for."""
STRETCH: Final = 1 << 18
"""Rows that one window looks at, at most."""

PATIENCE_S: Final = 60
"""How long leaders that are elected meanwhile are waited for."""
CLEANUP_POLICY: Final = "cleanup.policy"

TASK_BYTES: Final = 32 << 20
"""Of histories, for one task."""
BROADCAST: Final = "1m"
"""What of a join may be sent to all tasks unless they are told to: it stays in memory as long as they run."""

SPANS: Final = "topic string, partition int, start bigint, end bigint"


class Audited(NamedTuple):
    """`silent` are the histories that tell nothing of the topics."""

    findings: list[Finding]
    silent: list[str]


@contextmanager
def findings(
    events: DataFrame,
    log: DataFrame,
    spans: Spans,
    names: Sequence[str],
    *,
    most: int = MOST,
    stretch: int = STRETCH,
) -> Iterator[DataFrame]:
    """What is wrong: check, topic, partition, offset, detail, of each kind at most `most`; to be used inside
    the block, which keeps what is looked at several times.

    `events` as `read_events` returns them, with `names` for their histories; `log` with the columns of the
    source, all that is within `spans`, which were asked for after the histories were written.
    """
    spark = events.sparkSession
    with ExitStack() as stack:

        def keep(frame: DataFrame) -> DataFrame:
            return stack.enter_context(kept(frame, ON_DISK))

        judged = events.where(F.col("topic").isin(*{topic for topic, _ in spans}))
        stored = keep(facts.hashed(log))
        fates = keep(facts.fates(judged))
        told = facts.witnesses(fates, facts.received(judged))
        rows = [(topic, partition, *span) for (topic, partition), span in spans.items()]
        known = Known(
            judged,
            stored,
            spark.createDataFrame(rows, SPANS),
            fates,
            keep(facts.strange(told, stored)),
            keep(facts.odd_values(fates, stored)),
            names,
            most,
            stretch,
        )
        yield facts.union(all_findings(known))


def found(frame: DataFrame) -> list[Finding]:
    """The rows of `findings`, by check, topic and place."""
    return in_order(Finding(*row) for row in frame.select(*COLUMNS).collect())


def run(
    spark: SparkSession, bootstrap: str, histories: Sequence[Path], topics: Sequence[str], most: int = MOST
) -> Audited:
    """Audit histories against topics as they are now. Clients that still write are judged by what they have
    written.

    Raises InvalidHistory, UnknownTopicOrPartition, InvalidRequest for a compacted topic and for one of which
    no history tells anything, JobFailed.
    """
    size = sum(path.stat().st_size for path in histories)
    with said_by_spark(), suited(spark, size), read_events(spark, histories) as told:
        spans = call(_spans(bootstrap, topics))
        silent = _silent(told.topics, histories, topics)
        starts = {TopicPartition(*name): span.start for name, span in spans.items()}
        ends = {TopicPartition(*name): span.end for name, span in spans.items()}
        bounds = {"startingOffsets": offsets.said(starts), "endingOffsets": offsets.said(ends)}
        log = records(spark, bootstrap, ",".join(topics), **bounds)
        with findings(told.events, log, spans, [str(path) for path in histories], most=most) as frame:
            return Audited(found(frame), silent)


def _silent(told: Sequence[frozenset[str]], histories: Sequence[Path], topics: Sequence[str]) -> list[str]:
    """Histories that tell nothing of these topics. Raises InvalidRequest for a topic of which none does."""
    for topic in topics:
        if not any(topic in known for known in told):
            raise InvalidRequest(
                f"no history tells anything of topic {topic!r}: there is nothing to judge it by"
            )
    return [str(path) for path, known in zip(histories, told, strict=True) if known.isdisjoint(topics)]


@contextmanager
def suited(spark: SparkSession, size: int) -> Iterator[None]:
    """The session as an audit of histories of so many bytes wants it, until the end of the block: as many
    tasks as there is work for. Hashes do not compress, which Spark takes long to find out."""
    tasks = max(size // TASK_BYTES + 1, spark.sparkContext.defaultParallelism)
    settings = {
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        "spark.sql.autoBroadcastJoinThreshold": BROADCAST,
        "spark.sql.shuffle.partitions": str(tasks),
    }
    before = {name: spark.conf.get(name) or "" for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


async def _spans(bootstrap: str, topics: Sequence[str]) -> dict[tuple[str, int], Span]:
    """The logs of these topics, as they are now, once all of them have a leader that knows."""
    async with Admin(bootstrap) as admin:
        for topic in (await admin.metadata(topics)).topics:
            if "compact" in topic.config.get(CLEANUP_POLICY, ""):
                raise InvalidRequest(
                    f"topic {topic.name!r} is compacted: records are missing there for good reasons, so that "
                    "nothing can be told of those that are lost"
                )
    async with ClusterFacts(bootstrap, retries=PATIENCE_S, retry_interval_ms=1_000) as known:
        snapshot = await known.snapshot(Selection(topics=tuple(topics)))
    return {(name.topic, name.partition): Span(at.start, at.end) for name, at in snapshot.bounds.items()}
