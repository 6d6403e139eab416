"""Spark's format "strandline": topics as DataFrames and streams.

    spark.dataSource.register(StrandlineDataSource)
    spark.read.format("strandline").option("bootstrap", "127.0.0.1:9092").option("subscribe", "orders").load()

Spark pickles what is here and unpickles it in Python workers, which it forks; so gRPC is imported only where
something is asked of a broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
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

from pipeline.core.options import SourceOptions, includes_headers, source_options
from pipeline.core.ranges import OffsetRange
from pipeline.errors import InvalidSchema

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from pipeline.stream_source import StreamReader


FORMAT: Final = "strandline"

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
    """Reads and writes topics. docs/pipeline.md has the options."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return columns(include_headers=includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = source_options(self.options, stream=False)
        check_columns(schema, include_headers=options.include_headers)
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> StreamReader:
        from pipeline.stream_source import StreamReader

        options = source_options(self.options, stream=True)
        check_columns(schema, include_headers=options.include_headers)
        return StreamReader(options)


def check_columns(asked: StructType, *, include_headers: bool) -> None:
    """Raises InvalidSchema if somebody asks for others than there are."""
    there = columns(include_headers=include_headers)
    if [(f.name, f.dataType) for f in asked.fields] != [(f.name, f.dataType) for f in there.fields]:
        raise InvalidSchema(
            f"the schema {asked.simpleString()} is not that of a topic: leave `.schema(…)` out, it is "
            f"{there.simpleString()}"
        )


@dataclass
class RangePartition(InputPartition):
    """A range of offsets, which is what one task reads."""

    value: OffsetRange


class BatchReader(DataSourceReader):
    """Reads what is in the log when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        from pipeline.loop_thread import call
        from pipeline.planning import batch_ranges, in_pieces

        return [
            RangePartition(piece) for piece in in_pieces(call(batch_ranges(self._options)), self._options)
        ]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return read_range(partition, self._options)


def read_range(partition: InputPartition, options: SourceOptions, **bounds: Any) -> Iterator[RecordBatch]:
    """The records of a task. Where there is nothing to read Spark makes a task all the same."""
    if not isinstance(partition, RangePartition):
        return iter(())
    from pipeline.scanning import Scan, record_batches

    scan = Scan(
        options.bootstrap,
        options.include_headers,
        options.poll_timeout_ms / 1000,
        options.fail_on_data_loss,
        **bounds,
    )
    return record_batches(partition.value, scan)
