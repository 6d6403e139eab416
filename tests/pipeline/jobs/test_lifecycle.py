"""The report about requests, from records that a test made up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from strandline.pipeline.jobs import lifecycle
from tests.conftest import SPARK_TIME
from tests.pipeline.jobs.topic_records import as_records, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, SPARK_TIME]

NOW_MS = 1_795_336_400_000


def step(id_: str, state: str, at: int, **more: Any) -> dict[str, Any]:
    base = {"version": 1, "id": id_, "command": "start-replica", "topic": "t", "partition": 0, "broker": 1}
    return {**base, "state": state, "at": NOW_MS + at, **more}


def life(id_: str, *at: int, end: str = "completed", **more: Any) -> list[dict[str, Any]]:
    """Requested, received, ended: as far as there are times."""
    states = ("requested", "received", end)
    return [step(id_, state, time, **more) for state, time in zip(states, at, strict=False)]


def requests_of(spark: SparkSession, *steps: dict[str, Any] | bytes) -> DataFrame:
    return lifecycle.lives(lifecycle.steps(as_records(spark, [(one, NOW_MS) for one in steps])))


def test_the_first_record_of_a_step_counts_and_other_records_are_skipped(
    spark: SparkSession,
) -> None:
    lives = requests_of(
        spark,
        *life("a", 0, 10, 30),
        step("a", "requested", 5),
        step("a", "completed", 90),
        b"\xff\x00 no JSON",
        b'{"id": 3}',
        b"[1]",
        step("elect-1", "completed", 7, command="elect-leader"),
        {**step("b", "requested", 1), "version": 9, "later": [1]},
    )
    assert rows_of(lives.orderBy("id"), "id", "requested_ms", "received_ms", "ended_ms", "end") == [
        ("a", NOW_MS, NOW_MS + 10, NOW_MS + 30, "completed"),
        ("b", NOW_MS + 1, None, None, None),
    ]


def test_latencies_are_those_of_completed_requests_by_broker_and_command(spark: SparkSession) -> None:
    steps = [one for n in range(1, 101) for one in life(f"r{n}", 0, n, 3 * n)]
    steps += life("late", 0, 1_000, 900_000, end="superseded", reason="a later request")
    steps += life("lost", 0, end="failed") + life("other", 0, 4, 8, broker=2, command="delete-replica")
    steps += life("moved", 0, command="reassign-replicas", broker=2)
    steps += [step("moved", "completed", 70, command="reassign-replicas", broker=3)]
    rows = lifecycle.latencies(requests_of(spark, *steps)).collect()
    counted = {(r.broker, r.command): (r.requests, r.completed, r.superseded, r.open) for r in rows}
    assert counted == {
        (1, "start-replica"): (102, 100, 1, 1),
        (2, "delete-replica"): (1, 1, 0, 0),
        (2, "reassign-replicas"): (1, 1, 0, 0),
    }
    first, deleted, moved = rows
    assert (first.wait_p50_ms, first.wait_max_ms) == (51, 1_000)
    assert (first.work_p50_ms, first.work_p95_ms, first.work_max_ms) == (101.0, 190.1, 200)
    assert (first.total_p50_ms, first.total_max_ms) == (151.5, 300)
    assert (deleted.wait_max_ms, deleted.work_max_ms, deleted.total_max_ms) == (4, 4, 8)
    assert (moved.wait_max_ms, moved.work_max_ms, moved.total_max_ms) == (None, None, 70)


def test_a_clock_that_is_behind_makes_no_time_less_than_nothing(spark: SparkSession) -> None:
    lives = requests_of(spark, *life("a", 100, 40, 160), *life("b", 0, 10, 5, broker=2), *life("c", 0, 1, 2))
    one, other = lifecycle.latencies(lives).collect()
    assert (one.wait_max_ms, one.work_max_ms, one.total_max_ms, one.backwards) == (1, 120, 60, 1)
    assert (other.wait_max_ms, other.work_max_ms, other.total_max_ms, other.backwards) == (10, 0, 5, 1)
    assert rows_of(lifecycle.backlog(lives).orderBy("at_ms"), "waiting")[-1] == (0,)


def test_the_backlog_is_a_step_for_each_time_at_which_it_changed(spark: SparkSession) -> None:
    lives = requests_of(
        spark,
        *life("a", 0, 5, 20),
        *life("b", 10, 12, 20, end="failed"),
        *life("c", 20),
        *life("d", 30, 30, 30),
        *life("other", 5, broker=2),
        step("cut", "completed", 3),
        *life("moved", 1, command="reassign-replicas"),
    )
    backlog = lifecycle.backlog(lives)
    assert rows_of(backlog.orderBy("broker", "at_ms"), "broker", "at_ms", "waiting") == [
        (1, NOW_MS, 1),
        (1, NOW_MS + 10, 2),
        (1, NOW_MS + 20, 1),
        (2, NOW_MS + 5, 1),
    ]
    assert rows_of(lifecycle.peaks(backlog), "broker", "waiting_max", "at_ms", "waiting") == [
        (1, 2, NOW_MS + 10, 1),
        (2, 1, NOW_MS + 5, 1),
    ]


def test_a_thinned_series_keeps_its_peak_and_its_end(spark: SparkSession) -> None:
    steps = [one for n in range(200) for one in life(f"r{n}", n * 10, n * 10, 5_000 + n * 3)]
    backlog = lifecycle.backlog(requests_of(spark, *steps)).persist()
    thin = lifecycle.thinned(backlog, 10)
    rows = rows_of(thin.orderBy("at_ms"), "at_ms", "waiting")
    assert len(rows) <= 20
    assert max(waiting for _, waiting in rows) == 200
    assert rows[-1] == (NOW_MS + 5_000 + 199 * 3, 0)


def test_requests_without_an_end_are_listed_the_oldest_first(spark: SparkSession) -> None:
    lives = requests_of(
        spark,
        *life("done", 0, 5, 20),
        *life("taken", -500, -400, reason="reassigned"),
        *life("young", 3_000),
        *life("old", -90_000, broker=7),
    )
    rows = rows_of(lifecycle.unended(lives, NOW_MS), "id", "broker", "state", "age_ms", "reason")
    assert rows == [
        ("old", 7, "requested", 90_000, None),
        ("taken", 1, "received", 500, "reassigned"),
        ("young", 1, "requested", 0, None),
    ]
