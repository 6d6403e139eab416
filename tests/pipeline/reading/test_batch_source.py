"""The format as Spark calls it while it plans a batch query, without a Spark."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.types import StructType

from strandline.pipeline.core.options import source_options
from strandline.pipeline.core.pruning import Interval, Pruning
from strandline.pipeline.core.ranges import OffsetRange
from strandline.pipeline.errors import InvalidOption, InvalidSchema
from strandline.pipeline.reading.batch_source import PruningReader, RangePartition
from strandline.pipeline.source import StrandlineDataSource, columns

GIVEN = {"bootstrap": "b:1", "subscribe": "t"}
MOMENT = datetime(2026, 11, 22, 9, 30, 0, 123_456, tzinfo=UTC)
MICROS = 1_795_339_800_123_456


def pushed(*filters: Filter) -> Pruning:
    reader = PruningReader(source_options(GIVEN, stream=False))
    assert list(reader.pushFilters(list(filters))) == list(filters), "Spark looks at each row as well"
    return reader._pruning


def test_conditions_on_where_a_record_lies_are_understood() -> None:
    assert pushed(
        EqualTo(("topic",), "t"),
        In(("partition",), (2, 0)),
        GreaterThanOrEqual(("offset",), 5),
        LessThan(("offset",), 9),
    ) == Pruning(frozenset({"t"}), Interval(0, 2, frozenset({0, 2})), Interval(5, 8))
    assert pushed(EqualNullSafe(("partition",), 3)).partitions == Interval(3, 3, frozenset({3}))


def test_a_moment_is_the_same_in_any_time_zone() -> None:
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert pushed(GreaterThan(("timestamp",), MOMENT)).times_us == Interval(MICROS + 1)
    assert pushed(LessThanOrEqual(("timestamp",), elsewhere)).times_us == Interval(None, MICROS)
    before = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert pushed(EqualTo(("timestamp",), before)).times_us == Interval(-1, -1, frozenset({-1}))


def test_a_condition_that_does_not_locate_records_is_left_to_spark() -> None:
    assert (
        pushed(
            EqualTo(("value",), b"x"),
            IsNotNull(("topic",)),
            Not(EqualTo(("partition",), 1)),
            EqualTo(("headers", "partition"), 1),
            GreaterThan(("timestamp",), MOMENT.replace(tzinfo=None)),
            In(("partition",), (1, None)),
        )
        == Pruning()
    )


def test_readers_and_what_tasks_are_given_can_be_pickled() -> None:
    source = StrandlineDataSource(GIVEN)
    stream = source.streamReader(columns(include_headers=False))
    assert pickle.loads(pickle.dumps(stream)) is not None
    assert pickle.loads(pickle.dumps(source.reader(source.schema()))) is not None
    part = RangePartition(OffsetRange("t", 0, 1, 2, "id"))
    assert pickle.loads(pickle.dumps(part)) == part


def test_a_task_of_a_query_that_reads_nothing_reads_nothing() -> None:
    """Spark makes one where there is no range."""
    reader = StrandlineDataSource(GIVEN).reader(columns(include_headers=False))
    assert list(reader.read(InputPartition(None))) == []


def test_headers_are_a_column_if_they_are_wanted() -> None:
    assert "headers" not in StrandlineDataSource(GIVEN).schema().names
    assert StrandlineDataSource({**GIVEN, "includeHeaders": "true"}).schema().names[-1] == "headers"


def test_other_columns_than_there_are_and_wrong_options_are_refused() -> None:
    with pytest.raises(
        InvalidSchema, match=r"leave `.schema\(…\)` out, it is struct<key:binary,value:binary"
    ):
        StrandlineDataSource(GIVEN).reader(StructType().add("value", "string"))
    with pytest.raises(InvalidSchema):
        StrandlineDataSource(GIVEN).streamReader(columns(include_headers=True))
    with pytest.raises(InvalidOption, match="includeHeaders = 'yes'"):
        StrandlineDataSource({**GIVEN, "includeHeaders": "yes"}).schema()
