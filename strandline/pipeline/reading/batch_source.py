"""The source of a batch query: planned once, on the driver, and read by a task for each piece of a range."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSourceReader,
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

from strandline.pipeline.core.options import SourceOptions
from strandline.pipeline.core.pruning import EVERYTHING, TIMESTAMP, Condition, Interval, Pruning, pruning
from strandline.pipeline.core.ranges import OffsetRange
from strandline.pipeline.loop_thread import call
from strandline.pipeline.reading.planning import batch_ranges, in_pieces
from strandline.pipeline.reading.scanning import Scan, record_batches

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_OPERATORS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    In: "=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}


@dataclass
class RangePartition(InputPartition):
    """A range of offsets, read by one task."""

    value: OffsetRange


class BatchReader(DataSourceReader):
    """Reads the records that are in the log when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._pruning = Pruning()

    def partitions(self) -> list[InputPartition]:
        wanted = call(batch_ranges(self._options, self._pruning))
        return [RangePartition(piece) for piece in in_pieces(wanted, self._options)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return read_range(partition, self._options, self._pruning.times_us)


class PruningReader(BatchReader):
    """Reads less where the query's conditions allow it. Spark refuses such a reader, unless
    spark.sql.python.filterPushdown.enabled is set."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._pruning = pruning(filter(None, map(_condition, filters)))
        return filters  # Spark still checks the rows itself


def _condition(pushed: Filter) -> Condition | None:
    """The core's condition; None for a filter that does not restrict positions."""
    operator = _OPERATORS.get(type(pushed))
    if operator is None:
        return None
    attribute, value = vars(pushed)["attribute"], vars(pushed)["value"]
    values = tuple(value) if isinstance(pushed, In) else (value,)
    if attribute == (TIMESTAMP,):
        values = tuple(map(_micros, values))
    return Condition(attribute[0], operator, values) if len(attribute) == 1 else None


def _micros(moment: Any) -> int | None:
    """Microseconds since 1970; None for a value that is no point in time, such as one without a time zone."""
    if getattr(moment, "tzinfo", None) is None:
        return None
    return timegm(moment.utctimetuple()) * 1_000_000 + int(moment.microsecond)


def read_range(
    partition: InputPartition, options: SourceOptions, times_us: Interval = EVERYTHING
) -> Iterator[RecordBatch]:
    """The records of a task. Spark starts a task even if there is nothing to read."""
    if not isinstance(partition, RangePartition):
        return iter(())
    scan = Scan(
        options.connection,
        options.isolation,
        options.include_headers,
        options.poll_timeout_ms / 1000,
        options.fail_on_data_loss,
        times_us,
    )
    return record_batches(partition.value, scan)
