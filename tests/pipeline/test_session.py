"""The settings of a session that Spark would take from the machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from strandline.pipeline.spark.session import session
from tests.conftest import SPARK_TIME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, SPARK_TIME]


def versions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where a task of Spark runs: its Python, and where it finds this package."""
    import strandline.pipeline.spark.session as found

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"python": [sys.executable], "package": [str(found.__file__)]})


def test_tasks_run_in_this_python_and_find_these_packages(spark: SparkSession) -> None:
    rows = spark.range(1, numPartitions=1).mapInArrow(versions, "python string, package string").collect()
    assert [(Path(row.python), row.package) for row in rows] == [
        (Path(sys.executable), sys.modules["strandline.pipeline.spark.session"].__file__)
    ]


def test_timestamps_are_shown_in_utc(spark: SparkSession) -> None:
    text = spark.sql("select string(timestamp_millis(1234567890123)) as text").collect()[0].text
    assert text == datetime.fromtimestamp(1234567890.123, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def test_a_session_that_runs_is_handed_out_again(spark: SparkSession) -> None:
    before = dict(os.environ)
    again = session("local[7]", **{"spark.sql.maxPlanStringLength": "5000"})
    assert again.sparkContext is spark.sparkContext
    assert again.conf.get("spark.sql.maxPlanStringLength") == "5000"
    assert dict(os.environ) == before
