"""The audit: compares clients' histories with the topics, at any size.

`strandline.auditing` defines the checks. Each input is read once: the events of the histories and the log,
both without their values, are kept on disk until the audit ends. They are not kept in memory, which the tasks
need for sorting and grouping.
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
from strandline.pipeline.core.connection import Connection
from strandline.pipeline.core.options import ISOLATION, READ_COMMITTED, READ_UNCOMMITTED, Selection
from strandline.pipeline.jobs import audit_facts as facts
from strandline.pipeline.jobs.audit_checks import COLUMNS, Known, all_findings
from strandline.pipeline.jobs.history_events import read_events
from strandline.pipeline.jobs.records import ON_DISK, kept, records, spark_errors
from strandline.pipeline.loop_thread import call
from strandline.pipeline.reading.cluster_facts import ClusterFacts

MOST: Final = 100
"""The most findings of each kind."""
STRETCH: Final = 1 << 18
"""The most rows of one window."""

LEADER_WAIT_S: Final = 60
"""How long to wait for partitions without a leader."""
CLEANUP_POLICY: Final = "cleanup.policy"

TASK_BYTES: Final = 32 << 20
"""Bytes of histories for one task."""
BROADCAST: Final = "1m"
"""The largest side of a join that Spark may broadcast by itself: a broadcast stays in memory while the tasks
run."""

SPANS: Final = "topic string, partition int, start bigint, end bigint"


class Audited(NamedTuple):
    """`silent` are the histories without an event of the topics."""

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
    """The findings: check, topic, partition, offset, detail, at most `most` of each kind. Use them inside the
    block, which keeps the shared intermediate results.

    `events` as `read_events` returns them, with `names` for their histories; `log` with the columns of the
    source, complete within `spans`, which were read after the histories were written.
    """
    spark = events.sparkSession
    with ExitStack() as stack:

        def keep(frame: DataFrame) -> DataFrame:
            return stack.enter_context(kept(frame, ON_DISK))

        judged = events.where(F.col("topic").isin(*{topic for topic, _ in spans}))
        stored = keep(facts.hashed(log))
        fates = keep(facts.fates(judged))
        witnesses = facts.witnesses(fates, facts.received(judged))
        rows = [(topic, partition, *span) for (topic, partition), span in spans.items()]
        known = Known(
            judged,
            stored,
            spark.createDataFrame(rows, SPANS),
            fates,
            keep(facts.strange(witnesses, stored)),
            keep(facts.odd_values(fates, stored)),
            names,
            most,
            stretch,
        )
        yield facts.union(all_findings(known))


def found(frame: DataFrame) -> list[Finding]:
    """The rows of `findings`, by check, topic and position."""
    return in_order(Finding(*row) for row in frame.select(*COLUMNS).collect())


def run(
    spark: SparkSession,
    cluster: Connection,
    histories: Sequence[Path],
    topics: Sequence[str],
    most: int = MOST,
    *,
    isolation: str = READ_UNCOMMITTED,
) -> Audited:
    """Audit histories against the present topics. Clients that are still writing are judged by what they have
    written. With the `isolation` of readers of committed records, the log is what is committed of it.

    Raises InvalidHistory, UnknownTopicOrPartition, InvalidRequest for a compacted topic and for one without
    an event in any history, JobFailed.
    """
    size = sum(path.stat().st_size for path in histories)
    with spark_errors(), suited(spark, size), read_events(spark, histories) as read:
        spans = call(_spans(cluster, topics, stable=isolation == READ_COMMITTED))
        silent = _silent(read.topics, histories, topics)
        starts = {TopicPartition(*name): span.start for name, span in spans.items()}
        ends = {TopicPartition(*name): span.end for name, span in spans.items()}
        bounds = {"startingOffsets": offsets.as_text(starts), "endingOffsets": offsets.as_text(ends)}
        log = records(spark, cluster, ",".join(topics), **bounds, **{ISOLATION: isolation})
        with findings(read.events, log, spans, [str(path) for path in histories], most=most) as frame:
            return Audited(found(frame), silent)


def _silent(
    topics_of: Sequence[frozenset[str]], histories: Sequence[Path], topics: Sequence[str]
) -> list[str]:
    """Histories without an event of these topics. Raises InvalidRequest for a topic that occurs in no
    history."""
    for topic in topics:
        if not any(topic in known for known in topics_of):
            raise InvalidRequest(
                f"no history has an event of topic {topic!r}: there is nothing to judge it by"
            )
    return [str(path) for path, known in zip(histories, topics_of, strict=True) if known.isdisjoint(topics)]


@contextmanager
def suited(spark: SparkSession, size: int) -> Iterator[None]:
    """Spark settings for an audit of histories of this size in bytes, until the end of the block: the number
    of tasks follows from the size. Hashes do not compress, which Spark is slow to detect."""
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


async def _spans(cluster: Connection, topics: Sequence[str], *, stable: bool) -> dict[tuple[str, int], Span]:
    """The present logs of these topics, once all of them have a leader that knows its high watermark.
    `stable`: up to the first open transaction."""
    async with Admin(cluster.bootstrap, **cluster.settings) as admin:
        for topic in (await admin.metadata(topics)).topics:
            if "compact" in topic.config.get(CLEANUP_POLICY, ""):
                raise InvalidRequest(
                    f"topic {topic.name!r} is compacted: records are missing there for good reasons, so that "
                    "lost ones cannot be detected"
                )
    async with ClusterFacts(
        cluster.bootstrap,
        retries=LEADER_WAIT_S,
        retry_interval_ms=1_000,
        stable=stable,
        **cluster.settings,
    ) as known:
        snapshot = await known.snapshot(Selection(topics=tuple(topics)))
    return {(name.topic, name.partition): Span(at.start, at.end) for name, at in snapshot.bounds.items()}
