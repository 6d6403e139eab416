"""The report about owners and rebalances, from events that a test made up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from strandline.pipeline.jobs import ownership
from tests.conftest import SPARK_TIME
from tests.pipeline.jobs.topic_records import as_records, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, SPARK_TIME]

T0 = 1_795_336_400_000
Recorded = tuple[dict[str, Any] | bytes, int]


class WrittenEvents:
    """Events in the order in which a coordinator wrote them down, each with when it did."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._recorded: list[Recorded] = []

    def add(
        self,
        event: str,
        generation: int,
        at: int,
        *,
        recorded: int | None = None,
        group: str = "g",
        **more: Any,
    ) -> dict[str, Any]:
        fields = {"version": 1, "event": event, "group": group, "generation": generation, "at_ms": T0 + at}
        self.again(fields | more, T0 + (at if recorded is None else recorded))
        return fields | more

    def again(self, fields: dict[str, Any] | bytes, recorded_ms: int = T0) -> None:
        self._recorded.append((fields, recorded_ms))

    def owns(self, event: str, member: str, generation: int, at: int, *partitions: int, **more: Any) -> None:
        self.add(event, generation, at, member=member, partitions={"t": list(partitions or (0,))}, **more)

    def generation(self, number: int, started: int, stable: int, ended: int | None = None) -> None:
        """The rebalance before it too."""
        self.add("rebalance_started", number - 1, ended or started, reason="member m2 joined", caused_by="m2")
        if number > 1:
            self.add("generation_ended", number - 1, started)
        self.add("generation_started", number, started)
        self.add("generation_stable", number, stable)

    def events(self, group: str | None = None) -> DataFrame:
        return ownership.group_events(as_records(self._spark, self._recorded), group)

    def timeline(self) -> DataFrame:
        return ownership.timeline(ownership.moments(self.events()))


@pytest.fixture
def written_events(spark: SparkSession) -> WrittenEvents:
    return WrittenEvents(spark)


def spans(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Ordered, and with times from T0 on."""
    times = [name for name in columns if name.endswith("_ms")]
    rows = rows_of(frame.orderBy("partition", "from_ms", "to_ms"), *columns)
    return [
        tuple(
            value - T0 if name in times and value is not None and value > T0 // 2 else value
            for name, value in zip(columns, row, strict=True)
        )
        for row in rows
    ]


TIMES = ("partition", "owner", "from_ms", "to_ms", "ended")


def test_a_partition_goes_from_hand_to_hand(written_events: WrittenEvents) -> None:
    written_events.generation(1, 0, 5)
    written_events.owns("assigned", "m1", 1, 6, 0, 1)
    written_events.generation(2, 95, 99, ended=90)
    written_events.owns("revoked", "m1", 2, 100, 1, reason="partitions move between members")
    written_events.generation(3, 110, 119, ended=101)
    written_events.owns("assigned", "m2", 3, 120, 1)
    written_events.owns("lost", "m2", 3, 200, 1, reason="not heard of for 80 ms")
    written_events.add("member_left", 3, 200, member="m2")
    written_events.add("task_running", 3, 300, member="m1", task="t-0")
    written_events.again(b"\xfe no event")
    written_events.again({"version": 2, "event": "assigned", "group": "g", "generation": 9, "at_ms": T0})
    timeline = written_events.timeline().persist()
    assert spans(timeline, *TIMES) == [
        (0, "m1", 6, None, None),
        (1, "m1", 6, 100, "revoked"),
        (1, "m2", 120, 200, "lost"),
    ]
    assert ownership.overlaps(timeline).count() == 0
    gaps = ownership.gaps(timeline, written_events.events()).persist()
    assert spans(gaps, "partition", "from_ms", "to_ms", "unowned_ms") == [
        (1, 100, 120, 20),
        (1, 200, None, 0),
    ]
    rows = ownership.partitions(timeline, gaps)
    assert rows_of(rows, "partition", "owners", "changes", "owner", "unowned_ms", "unowned_max_ms") == [
        (0, 1, 1, "m1", 0, 0),
        (1, 2, 2, None, 20, 20),
    ]


def test_two_owners_are_reported_with_time_and_members(written_events: WrittenEvents) -> None:
    written_events.generation(1, 0, 5)
    written_events.owns("assigned", "m1", 1, 10, 0, 1, 2)
    written_events.owns("assigned", "ghost", 1, 50, 1, 2)
    written_events.owns("revoked", "ghost", 1, 70, 2)
    written_events.owns("revoked", "m1", 1, 90, 0, 1)
    found = spans(ownership.overlaps(written_events.timeline()), "partition", "owners", "from_ms", "to_ms")
    assert found == [(1, ["ghost", "m1"], 50, 90), (2, ["ghost", "m1"], 50, 70)]


def test_two_owners_without_a_release_are_reported_though_nothing_came_after(
    written_events: WrittenEvents,
) -> None:
    written_events.generation(1, 0, 5)
    written_events.owns("assigned", "m1", 1, 10)
    written_events.owns("assigned", "m2", 1, 50)
    found = spans(ownership.overlaps(written_events.timeline()), "owners", "from_ms", "to_ms")
    assert found == [(["m1", "m2"], 50, None)]


def test_a_report_that_came_late_is_no_second_owner_and_one_in_time_is_none_either(
    written_events: WrittenEvents,
) -> None:
    written_events.generation(1, 0, 5)
    written_events.owns("assigned", "m1", 1, 6)
    written_events.generation(2, 95, 99, ended=90)
    written_events.owns("assigned", "m2", 2, 100)
    written_events.owns("revoked", "m1", 1, 94, recorded=150)  # both are right, though in this order
    written_events.owns("revoked", "m2", 2, 200)
    written_events.owns("assigned", "m1", 2, 200)  # in the same millisecond
    assert ownership.overlaps(written_events.timeline()).count() == 0
    assert spans(written_events.timeline(), *TIMES)[:2] == [
        (0, "m1", 6, 94, "revoked"),
        (0, "m2", 100, 200, "revoked"),
    ]


@pytest.mark.parametrize("ahead_ms", [-3_600_000, -40, 40, 3_600_000])
def test_a_members_clock_makes_no_second_owner(written_events: WrittenEvents, ahead_ms: int) -> None:
    """m1's clock is wrong, m2's right. The report of the first one arrives once the next generation began."""
    written_events.generation(1, 0, 5)
    written_events.owns("assigned", "m1", 1, 6 + ahead_ms, recorded=7)
    written_events.generation(2, 95, 99, ended=90)
    written_events.owns("assigned", "m2", 2, 101, recorded=102)
    written_events.owns("revoked", "m1", 1, 94 + ahead_ms, recorded=103)
    written_events.generation(3, 195, 199, ended=190)
    written_events.owns("revoked", "m2", 2, 191, recorded=200)
    written_events.owns("assigned", "m1", 3, 201 + ahead_ms, recorded=202)
    timeline = written_events.timeline().persist()
    assert ownership.overlaps(timeline).count() == 0
    first, second, third = spans(timeline, *TIMES)
    assert (second[1], second[2:4]) == ("m2", (101, 191))
    assert 5 <= first[2] <= 7 and first[2] <= first[3] <= 95
    assert 199 <= third[2] <= 202


def test_the_same_line_twice_is_one_event(written_events: WrittenEvents) -> None:
    written_events.generation(1, 0, 5)
    line = written_events.add("assigned", 1, 6, member="m1", partitions={"t": [0]})
    written_events.owns("revoked", "m1", 1, 20)
    written_events.again(line, T0 + 30)
    assert spans(written_events.timeline(), *TIMES) == [(0, "m1", 6, 20, "revoked")]


def test_a_member_that_left_owns_nothing_even_without_a_report(written_events: WrittenEvents) -> None:
    written_events.generation(1, 0, 5)
    written_events.owns("assigned", "m1", 1, 6, 0, 1)
    written_events.owns("revoked", "m1", 1, 30, 1)
    written_events.add("member_left", 1, 50, member="m1", reason="not heard of for 20 ms")
    assert spans(written_events.timeline(), *TIMES) == [
        (0, "m1", 6, 50, "member_left"),
        (1, "m1", 6, 30, "revoked"),
    ]


def test_a_period_that_began_before_the_log_is_shown_and_not_counted(written_events: WrittenEvents) -> None:
    written_events.owns("assigned", "m2", 4, 10, 1)
    written_events.owns("revoked", "m1", 4, 30, 0, 1)
    written_events.owns("revoked", "m2", 4, 40, 1)
    timeline = written_events.timeline().persist()
    assert spans(timeline, *TIMES)[0] == (0, "m1", None, 30, "revoked")
    assert ownership.overlaps(timeline).count() == 0


def test_the_time_of_an_empty_group_is_no_time_without_an_owner(written_events: WrittenEvents) -> None:
    written_events.generation(1, 0, 5)
    written_events.owns("assigned", "m1", 1, 10)
    written_events.owns("revoked", "m1", 1, 100)
    written_events.add("member_left", 1, 110, member="m1")
    written_events.add("generation_ended", 1, 110)
    written_events.add("generation_started", 3, 9_000)  # the second generation had no members
    written_events.add("generation_stable", 3, 9_005)
    written_events.owns("assigned", "m2", 3, 9_010)
    gaps = ownership.gaps(written_events.timeline(), written_events.events())
    assert spans(gaps, "from_ms", "to_ms", "unowned_ms") == [(100, 9_010, 20)]


def test_rebalances_are_counted_by_reason_for_any_cause(written_events: WrittenEvents) -> None:
    for number, (cause, begin, stable) in enumerate((("m1", 0, 40), ("m2", 100, 120), ("m3", 200, None))):
        reason = f"member {cause} joined: subscribed to t"
        written_events.add("rebalance_started", number, begin, reason=reason, caused_by=cause)
        written_events.add("generation_started", number + 1, begin + 5)
        if stable is not None:
            written_events.add("generation_stable", number + 1, stable)
    written_events.add("rebalance_started", 3, 210, reason="m3 left", caused_by="m3")
    written_events.add("generation_stable", 4, 290)
    written_events.add("rebalance_started", 0, 0, group="other", reason="m9 left", caused_by="m9")
    table = ownership.by_reason(ownership.rebalances(written_events.events("g")))
    assert rows_of(table, "group", "reason", "rebalances", "finished", "p50_ms", "max_ms", "total_ms") == [
        ("g", "member … joined: subscribed to t", 3, 2, 30.0, 40, 60),
        ("g", "… left", 1, 1, 80.0, 80, 80),
    ]
