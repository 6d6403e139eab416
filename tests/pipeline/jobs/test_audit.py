"""Spark finds the same in histories and logs as the reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from strandline.auditing import reference
from strandline.auditing.checks import CHECKS, Finding
from strandline.auditing.history import History, InvalidHistory
from strandline.pipeline.jobs.audit import findings, found
from strandline.pipeline.jobs.history_events import read_events
from tests.conftest import SPARK_TIME
from tests.strandline.auditing.generated_runs import FinishedRun, harm, sound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, SPARK_TIME]

LOG = "topic string, partition int, offset bigint, value binary"
ALL = 1_000_000


def by_spark(
    spark: SparkSession, finished_run: FinishedRun, folder: Path, *, most: int = ALL, stretch: int = 8
) -> list[Finding]:
    with read_events(spark, finished_run.write(folder)) as (events, _):
        log = spark.createDataFrame([tuple(each) for each in finished_run.log], LOG)
        names = [history.name for history in finished_run.histories]
        with findings(events, log, finished_run.spans, names, most=most, stretch=stretch) as frame:
            return found(frame)


def together(stories: Sequence[FinishedRun]) -> FinishedRun:
    """Stories of topics of their own as one, for a query of Spark has its price."""
    whole = FinishedRun()
    for finished_run in stories:
        whole.histories += finished_run.histories
        whole.log += finished_run.log
        whole.spans |= finished_run.spans
    return whole


def doctored(random: Random, number: int) -> FinishedRun:
    finished_run = sound(random, f"topic-{number}", steps=random.randrange(120))
    for _ in range(number % 6):
        harm(random, finished_run)
    return finished_run


def judged(finished_run: FinishedRun) -> list[Finding]:
    return reference.findings(finished_run.histories, finished_run.log, finished_run.spans)


@pytest.mark.timeout(600)
@settings(
    max_examples=1,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(random=st.randoms(use_true_random=True))
def test_spark_finds_the_same_as_the_reference(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, random: Random
) -> None:
    finished_run = together([doctored(random, number) for number in range(16)])
    assert by_spark(spark, finished_run, tmp_path_factory.mktemp("stories")) == judged(finished_run)


def test_every_check_is_compared(spark: SparkSession, tmp_path: Path) -> None:
    """These have offenders of every kind, beside stories in which nothing is wrong."""
    random = Random(12)
    silent = FinishedRun([History("silent")], [], {("nobody", 0): reference.Span(0, 0)})
    finished_run = together([silent, *(doctored(random, number) for number in range(48))])
    expected = judged(finished_run)
    assert {each.check for each in expected} == {check.name for check in CHECKS}
    assert by_spark(spark, finished_run, tmp_path) == expected


def test_no_more_findings_of_a_kind_are_returned_than_requested(spark: SparkSession, tmp_path: Path) -> None:
    finished_run = sound(Random(3), "t", 200)
    finished_run.log.clear()
    expected = judged(finished_run)
    assert len(expected) > 5
    few = by_spark(spark, finished_run, tmp_path, most=5)
    assert len(few) == 5
    assert few == expected[:5]


def test_a_history_may_have_any_name_and_end_in_half_a_line(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a [b]*{c} ü.jsonl"
    path.write_bytes(
        b'{"event":"sent","seq":0,"topic":"t","record":7,"value":"/w==","value_encoding":"base64"}\n{"ev'
    )
    with read_events(spark, [path]) as (events, topics):
        rows = events.collect()
    assert [(row.event, row.record, row.hash is not None) for row in rows] == [("sent", 7, True)]
    assert topics == [{"t"}]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (b"{", "line 2: not JSON"),
        (b'{"event":"summary","seq":1}', "line 2: topic is None"),
        (b'{"event":"acked","seq":1,"topic":"t","record":1,"offset":1}', "line 2: partition is None"),
        (
            b'{"event":"acked","seq":1,"topic":"t","record":1,"offset":1.5,"partition":0}',
            "line 2: offset is 1.5",
        ),
        (
            b'{"event":"acked","seq":1,"topic":"t","record":1,"offset":%d,"partition":0}' % 10**25,
            "line 2: offset is a number",
        ),
        (
            b'{"event":"acked","seq":1,"topic":"t","record":1,"offset":1,"partition":%d}' % 2**31,
            "line 2: partition is a number",
        ),
        (b"[" * 200_000, "line 2: not JSON"),
        (b'{"event":"seen","seq":1,"topic":"t"}', "line 2: there is no event 'seen'"),
        (b'{"event":"failed","seq":1,"topic":"t","record":1,"outcome":"bad"}', "line 2: outcome is 'bad'"),
        (
            b'{"event":"sent","seq":1,"topic":"t","record":1,"value":"?","value_encoding":"base64"}',
            "line 2: value",
        ),
        (b'{"event":"summary","seq":0,"topic":"t"}', "line 2: a second run"),
    ],
)
def test_unreadable_content_is_reported_with_its_place(
    spark: SparkSession, tmp_path: Path, broken: bytes, why: str
) -> None:
    path = tmp_path / "broken.jsonl"
    lines = [b'{"event":"summary","seq":0,"topic":"t"}', broken, b'{"event":"summary","seq":2,"topic":"t"}']
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(InvalidHistory, match=why), read_events(spark, [path]):
        pass
