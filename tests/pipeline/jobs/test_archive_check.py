"""The differences of an archive from its topic, on rows that a test made up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row

from strandline.errors import SettingsError
from strandline.ids import TopicPartition
from strandline.pipeline.core.offsets import StreamOffset
from strandline.pipeline.jobs import archive, archive_check
from tests.conftest import SPARK_TIME
from tests.pipeline.jobs.topic_records import SCHEMA, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, SPARK_TIME]

AT = "2026-11-22 23:59:59.999"
COLUMNS = ("key", "value", "topic", "partition", "offset", "at", "timestampType", "headers")
PLAIN: dict[str, Any] = {
    "key": b"k", "value": b"v", "topic": "t", "partition": 0, "offset": 0, "at": AT, "timestampType": 0,
    "headers": [Row(key="h", value=b"x")],
}  # fmt: skip


def rows(spark: SparkSession, *changes: dict[str, Any]) -> DataFrame:
    """A row for each, as PLAIN but for these columns. One row a partition of Spark's, so in no order."""
    values = [tuple({**PLAIN, **change}[name] for name in COLUMNS) for change in changes]
    frame = spark.createDataFrame(values, SCHEMA.replace("timestamp timestamp", "at string"))
    return frame.withColumn("timestamp", frame["at"].cast("timestamp"))


def offsets(*numbers: int, **more: Any) -> list[dict[str, Any]]:
    return [{"offset": number, **more} for number in numbers]


DIFFERENT: list[dict[str, Any]] = [
    {},
    {"key": None},
    {"key": b""},
    {"value": None},
    {"value": b""},
    {"key": b"kv", "value": b""},
    {"key": None, "value": b"k"},
    {"at": None},
    {"at": "2026-11-22 23:59:59.998"},
    {"at": "1970-01-01 00:00:00"},
    {"timestampType": 1},
    {"headers": None},
    {"headers": []},
    {"headers": [Row(key="h", value=None)]},
    {"headers": [Row(key="h", value=b"")]},
    {"headers": [Row(key="hx", value=b"")]},
    {"headers": [Row(key="h", value=b"x"), Row(key="h", value=b"x")]},
]


def test_rows_that_differ_in_any_column_have_different_hashes(spark: SparkSession) -> None:
    changes = [{**change, "offset": 7} for change in DIFFERENT]
    hashes = [row.hash for row in archive_check.hashed(rows(spark, *changes, {"offset": 8})).collect()]
    assert len(set(hashes)) == len(DIFFERENT) + 1


def test_a_digest_is_of_what_is_there_however_often_and_in_any_order(spark: SparkSession) -> None:
    def digests(*changes: dict[str, Any]) -> list[tuple[Any, ...]]:
        frame = archive_check.fingerprints(archive_check.hashed(rows(spark, *changes)))
        return rows_of(frame.orderBy("partition"), "partition", "records", "first", "last", "digest")

    one = offsets(1, 2, 3) + offsets(5, partition=1)
    assert digests(*one) == digests(*reversed(one))
    assert [row[:4] for row in digests(*one)] == [(0, 3, 1, 3), (1, 1, 5, 5)]
    assert digests(*offsets(1, 2, 2, 3)) != digests(*offsets(1, 2, 3))
    assert digests(*offsets(1, 2, 2)) != digests(*offsets(1, 1, 2))


def test_missing_extra_and_changed_records_are_named(spark: SparkSession) -> None:
    kept = archive_check.hashed(rows(spark, *offsets(1, 2, 2, 4), *offsets(3, value=b"other"), *offsets(9)))
    topic = archive_check.hashed(rows(spark, *offsets(1, 2, 3, 4, 5), *offsets(0, partition=1)))
    found = rows_of(archive_check.differences(kept, topic), "partition", "offset", "kind")
    assert sorted(found) == [
        (0, 3, "changed"),
        (0, 5, "missing"),
        (0, 9, "extra"),
        (1, 0, "missing"),
    ]
    assert rows_of(archive_check.doubles(kept), "partition", "offset") == [(0, 2)]


def test_a_double_of_which_one_is_another_is_changed_too(spark: SparkSession) -> None:
    kept = archive_check.hashed(rows(spark, *offsets(1), *offsets(1, value=b"other")))
    topic = archive_check.hashed(rows(spark, *offsets(1)))
    assert rows_of(archive_check.differences(kept, topic), "kind", "offset") == [("changed", 1)]


def test_only_records_that_both_should_have_are_compared(spark: SparkSession) -> None:
    hashes = archive_check.hashed(
        rows(spark, *offsets(0, 4, 5, 9, 10), *offsets(0, 1, partition=1), *offsets(3, partition=2))
    )
    within = archive_check.within(hashes, {0: 5}, {0: 10, 1: 1})
    assert sorted(rows_of(within, "partition", "offset")) == [(0, 5), (0, 9), (1, 0)]
    assert archive_check.within(hashes, {}, {}).count() == 0


def compared(
    spark: SparkSession, kept: list[dict[str, Any]], topic: list[dict[str, Any]], **logs: Any
) -> archive_check.Check:
    """An archive up to offset 6 of partition 0, of a topic that begins at 3 and continues."""
    facts = {"topic_id": "id", "isolation": "read_committed", "compacted": False, **logs}
    facts |= {"starts": {0: 3, 1: 0}, "ends": {0: 90, 1: 0}}
    sides = [archive_check.hashed(rows(spark, *side)) for side in (kept, topic)]
    return archive_check.compared(sides[0], sides[1], archive_check.Logs(**facts), {0: 6, 1: 0})


def test_records_deleted_by_retention_are_reported_and_no_fault(spark: SparkSession) -> None:
    check = compared(spark, offsets(0, 1, 2, 3, 4, 5, 8), offsets(3, 4, 5))
    assert check.sound
    assert [(each.partition, each.start, each.end, each.before) for each in check.partitions] == [
        (0, 3, 6, 3),
        (1, 0, 0, 0),
    ]
    assert check.notes == ("in the archive only, for retention took them, and not compared: 3 records",)


def test_a_duplicate_of_a_deleted_record_is_found_too(spark: SparkSession) -> None:
    check = compared(spark, offsets(0, 0, 3, 4, 5), offsets(3, 4, 5))
    assert check.differences == (archive_check.Difference("double", 0, 0),)
    assert not check.sound


@pytest.mark.parametrize("compacted", [True, False])
def test_records_that_compaction_removed_are_no_fault(spark: SparkSession, compacted: bool) -> None:
    check = compared(spark, offsets(3, 4, 5), offsets(3, 5), compacted=compacted)
    extra = archive_check.Difference("extra", 0, 4)
    assert check.differences == (() if compacted else (extra,))
    assert check.notes == (
        ("in the archive only, for the topic is compacted: 1 records",) if compacted else ()
    )


def test_a_compacted_topic_has_what_is_missing_all_the_same(spark: SparkSession) -> None:
    check = compared(spark, offsets(3, 5, value=b"other"), offsets(3, 4, 5), compacted=True)
    assert [(each.kind, each.offset) for each in check.differences] == [
        ("changed", 3),
        ("missing", 4),
        ("changed", 5),
    ]


def test_the_day_of_a_record_is_that_of_utc(spark: SparkSession) -> None:
    frame = rows(spark, {}, {"at": None})
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        dates = [str(row.date) for row in archive.dated(frame).collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert dates == ["2026-11-22", "None"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/a b/c", "/a b/c"),
        ("file:///a b/c", "/a b/c"),
        ("file:/a/c", "/a/c"),
        ("hdfs://name/a", "hdfs://name/a"),
    ],
)
def test_a_folder_is_named_from_the_root(given: str, expected: str) -> None:
    assert archive.place(given) == expected


def test_an_archive_is_that_of_one_topic() -> None:
    kept = StreamOffset({TopicPartition("one", 0): 3})
    archive.check_topic(kept, "one", "/kept")
    with pytest.raises(SettingsError, match="/kept is the archive of one: give two a folder of its own"):
        archive.check_topic(kept, "two", "/kept")
