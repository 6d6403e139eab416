"""Spark's format "strandline": topics as DataFrames and streams.

    spark.dataSource.register(StrandlineDataSource)
    spark.read.format("strandline").option("bootstrap", "127.0.0.1:9092").option("subscribe", "orders").load()

Spark pickles these objects and unpickles them in forked Python workers; so gRPC is imported only where a
broker is called.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from strandline.pipeline.core.options import includes_headers, source_options
from strandline.pipeline.errors import InvalidSchema

if TYPE_CHECKING:
    from strandline.pipeline.reading.stream_source import StreamReader

FORMAT: Final = "strandline"

_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module of the Python worker in which Spark plans a query and pushes down its conditions."""

KEEPS_SCANS_APART: Final = hasattr(DataSourceReader, "pushLimit")
"""Whether what Spark plans for the conditions of one query is used by this query alone.

Spark 4.1 to 4.3 keep one plan for each DataFrame: `frame.where("partition = 1")` replaces the plan of `frame`
itself and of every other query of it, which then lack rows without an error. So nothing is left out there.
The plan of a scan is its own since conditions and limits are pushed down together (SPARK-58551).
"""

_COLUMNS: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType(), nullable=False),
    StructField("partition", IntegerType(), nullable=False),
    StructField("offset", LongType(), nullable=False),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType(), nullable=False),
)
_HEADER: Final = StructType(
    [StructField("key", StringType(), nullable=False), StructField("value", BinaryType())]
)
_HEADERS: Final = StructField("headers", ArrayType(_HEADER))


def columns(*, include_headers: bool) -> StructType:
    """The columns of the source: Kafka's."""
    return StructType([*_COLUMNS, _HEADERS] if include_headers else list(_COLUMNS))


class StrandlineDataSource(DataSource):
    """Reads and writes topics. docs/use/spark.md has the options."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return columns(include_headers=includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from strandline.pipeline.reading.batch_source import BatchReader, PruningReader

        options = source_options(self.options, stream=False)
        check_columns(schema, include_headers=options.include_headers)
        prunes = KEEPS_SCANS_APART and _PUSHING in sys.modules
        return PruningReader(options) if prunes else BatchReader(options)

    def streamReader(self, schema: StructType) -> StreamReader:
        from strandline.pipeline.reading.stream_source import StreamReader

        options = source_options(self.options, stream=True)
        check_columns(schema, include_headers=options.include_headers)
        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from strandline.pipeline.writing.sink import batch_writer

        return batch_writer(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from strandline.pipeline.writing.sink import stream_writer

        return stream_writer(schema, self.options, overwrite)


def check_columns(asked: StructType, *, include_headers: bool) -> None:
    """Raises InvalidSchema if other columns are requested."""
    there = columns(include_headers=include_headers)
    if [(f.name, f.dataType) for f in asked.fields] != [(f.name, f.dataType) for f in there.fields]:
        raise InvalidSchema(
            f"the schema {asked.simpleString()} is not that of a topic: leave `.schema(…)` out, it is "
            f"{there.simpleString()}"
        )
