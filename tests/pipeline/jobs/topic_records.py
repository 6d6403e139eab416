"""Records of a topic that a test made up, as the source would hand them out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)


def as_records(spark: SparkSession, values: Iterable[tuple[Mapping[str, Any] | bytes, int]]) -> DataFrame:
    """One partition's: JSON objects (or what is none), each with the record's own time in milliseconds."""
    rows = [
        {
            "key": b"k",
            "value": value if isinstance(value, bytes) else json.dumps(value).encode(),
            "topic": "recorded",
            "partition": 0,
            "offset": offset,
            "timestamp": pd.Timestamp(recorded_ms, unit="ms", tz="UTC"),
            "timestampType": 0,
            "headers": None,
        }
        for offset, (value, recorded_ms) in enumerate(values)
    ]
    return spark.createDataFrame(pd.DataFrame(rows), SCHEMA)


def rows_of(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """The values of these columns, in the frame's order."""
    return [tuple(row) for row in frame.select(*columns).collect()]
