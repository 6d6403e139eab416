"""Spark's format "strandline": topics as DataFrames and streams.

    spark.dataSource.register(StrandlineDataSource)
    spark.read.format("strandline").option("bootstrap", "127.0.0.1:9092").option("subscribe", "orders").load()

Spark pickles what is here and unpickles it in Python workers, which it forks; so gRPC is imported only where
something is asked of a broker.
"""

from __future__ import annotations

import sys
from calendar import timegm
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
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
from pipeline.core.pruning import EVERYTHING, TIMESTAMP, Condition, Interval, Pruning, pruning
from pipeline.core.ranges import OffsetRange
from pipeline.errors import InvalidSchema

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from pipeline.stream_source import StreamReader


FORMAT: Final = "strandline"

_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module of the Python worker in which Spark plans a query whose conditions it hands on."""

_OPERATORS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    In: "=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}

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
        return PruningReader(options) if _PUSHING in sys.modules else BatchReader(options)

    def streamReader(self, schema: StructType) -> StreamReader:
        from pipeline.stream_source import StreamReader

        options = source_options(self.options, stream=True)
        check_columns(schema, include_headers=options.include_headers)
        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pipeline.sink import batch_writer

        return batch_writer(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from pipeline.sink import stream_writer

        return stream_writer(schema, self.options, overwrite)


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
        self._pruning = Pruning()

    def partitions(self) -> list[InputPartition]:
        from pipeline.loop_thread import call
        from pipeline.planning import batch_ranges, in_pieces

        wanted = call(batch_ranges(self._options, self._pruning))
        return [RangePartition(piece) for piece in in_pieces(wanted, self._options)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return read_range(partition, self._options, self._pruning.times_us)


class PruningReader(BatchReader):
    """Reads less where the query's conditions allow it. Spark refuses a reader that can, unless
    spark.sql.python.filterPushdown.enabled is set."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._pruning = pruning(filter(None, map(_condition, filters)))
        return filters  # Spark looks at the rows itself all the same


def _condition(pushed: Filter) -> Condition | None:
    """In the words of the core; None for what says nothing of where rows are."""
    operator = _OPERATORS.get(type(pushed))
    if operator is None:
        return None
    attribute, value = vars(pushed)["attribute"], vars(pushed)["value"]
    values = tuple(value) if isinstance(pushed, In) else (value,)
    if attribute == (TIMESTAMP,):
        values = tuple(map(_micros, values))
    return Condition(attribute[0], operator, values) if len(attribute) == 1 else None


def _micros(moment: Any) -> int | None:
    """Since 1970; None for what is no moment, as without a time zone."""
    if getattr(moment, "tzinfo", None) is None:
        return None
    return timegm(moment.utctimetuple()) * 1_000_000 + int(moment.microsecond)


def read_range(
    partition: InputPartition, options: SourceOptions, times_us: Interval = EVERYTHING
) -> Iterator[RecordBatch]:
    """The records of a task. Where there is nothing to read Spark makes a task all the same."""
    if not isinstance(partition, RangePartition):
        return iter(())
    from pipeline.scanning import Scan, record_batches

    scan = Scan(
        options.bootstrap,
        options.include_headers,
        options.poll_timeout_ms / 1000,
        options.fail_on_data_loss,
        times_us,
    )
    return record_batches(partition.value, scan)
