"""Spark's report about owners equals that of `strandline_lab.auditing.ownership` in memory."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from strandline.pipeline.jobs import ownership
from strandline_lab.auditing.ownership import GroupEvent, Overlap, holdings, overlaps
from tests.conftest import SPARK_TIME
from tests.pipeline.jobs.topic_records import as_records, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, SPARK_TIME]

GROUPS = 60
EVENTS = 14
NAMES = ["assigned", "assigned", "revoked", "lost", "member_left", "generation_started", "generation_stable"]
Recorded = tuple[dict[str, Any], int]


def random_events(random: Random, group: str) -> list[Recorded]:
    """Events that no coordinator would write like this: in any order, by clocks that are wrong."""
    recorded: list[Recorded] = []
    generation, now = 1, 1_000
    for _ in range(EVENTS):
        generation += random.random() < 0.2
        now += random.randrange(20)
        name = random.choice(NAMES)
        fields = {
            "version": 1,
            "event": name,
            "group": group,
            "generation": generation - (random.random() < 0.1),
            "at_ms": now + random.choice([0, 0, 0, -3, 7, 500, -500]),
        }
        if not name.startswith("generation"):
            fields["member"] = random.choice(["a", "b", "c"])
        if name in ("assigned", "revoked", "lost"):
            fields["partitions"] = {"t": random.sample([0, 1], random.choice([1, 1, 2]))}
        recorded.append((fields, now + random.choice([0, 1, 30])))
    return recorded


def in_memory(recorded: Sequence[Recorded]) -> list[GroupEvent]:
    """The first of equal events."""
    once = {repr(sorted(fields.items())): (fields, recorded_ms) for fields, recorded_ms in reversed(recorded)}
    return [
        GroupEvent(
            fields["event"],
            fields["group"],
            fields["generation"],
            fields["at_ms"],
            fields.get("member", ""),
            fields.get("partitions", {}),
            recorded_ms,
        )
        for fields, recorded_ms in reversed(once.values())
    ]


def test_spark_finds_the_same_owners_as_the_reference(spark: SparkSession) -> None:
    random = Random(7)
    recorded = [event for number in range(GROUPS) for event in random_events(random, f"g{number:02}")]
    expected = holdings(in_memory(recorded))
    timeline = ownership.timeline(
        ownership.moments(ownership.group_events(as_records(spark, recorded)))
    ).persist()
    columns = ("group", "topic", "partition", "owner", "from_ms", "to_ms", "ended", "generation")
    assert sorted(rows_of(timeline, *columns), key=repr) == sorted(
        ((*each.holder, each.from_ms, each.to_ms, each.ended or None, each.generation) for each in expected),
        key=repr,
    )
    shared = rows_of(
        ownership.overlaps(timeline), "group", "topic", "partition", "from_ms", "to_ms", "owners"
    )
    found = overlaps(expected)
    assert len(found) > GROUPS / 2
    assert [Overlap._make((*row[:5], tuple(row[5]))) for row in shared] == found
    timeline.unpersist()
