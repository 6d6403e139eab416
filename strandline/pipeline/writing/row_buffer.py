"""Checks a task's rows before the first of them is written, and buffers them until then.

If any row is invalid, none of the task's rows is written. Rows that do not fit into memory are kept in an
unnamed file, which vanishes with the process, however that ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strandline.config.limits import MIB
from strandline.errors import InvalidRecord, MessageTooLarge, StrandlineError, UnknownTopicOrPartition
from strandline.pipeline.core.sink_options import check_topic
from strandline.pipeline.writing.exactly_once import TopicFacts, row_bytes
from strandline.pipeline.writing.record_columns import RecordColumns
from strandline.records import HEADER_BYTES, Headers

MEMORY_BYTES: Final = 64 * MIB
"""Size of a task's rows in memory, as Arrow has them; further ones go into a file."""


FindTopic = Callable[[str], TopicFacts]
"""Raises UnknownTopicOrPartition, BrokerNotAvailable."""


class Rows:
    """One batch of a task's rows by column; `topic` is the topic of all rows, None if each names its own."""

    def __init__(self, batch: Any, topic: str | None) -> None:
        self.count: int = batch.num_rows
        columns = {name.lower(): batch.column(at) for at, name in enumerate(batch.schema.names)}
        self.keys = _as_bytes(columns.get("key"))
        self.values = _as_bytes(columns["value"])
        self.topic = topic
        self.topics = columns.get("topic") if topic is None else None
        self.partitions = columns.get("partition")
        self.headers = columns.get("headers")
        self.times = columns.get("timestamp")

    def topic_of(self) -> Sequence[str | None]:
        found: list[str | None] = (
            [self.topic] * self.count if self.topics is None else self.topics.to_pylist()
        )
        return found

    def partition_of(self) -> Sequence[int | None]:
        found: list[int | None] = (
            [None] * self.count if self.partitions is None else self.partitions.to_pylist()
        )
        return found

    def times_ms(self) -> list[Any]:
        """Milliseconds since the Unix epoch, None where there is none; Spark counts microseconds."""
        assert self.times is not None
        found = self.times.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        return [None if time is None else time // 1000 for time in found]

    def columns(self, now_ms: int) -> RecordColumns:
        """The rows as records; rows without a timestamp get `now_ms`."""
        return RecordColumns(
            self.values.to_pylist(),
            None if self.keys is None else self.keys.to_pylist(),
            None if self.headers is None else [_headers(of_row) for of_row in self.headers.to_pylist()],
            None if self.times is None else self.times_ms(),
            now_ms,
        )


def _as_bytes(column: Any) -> Any:
    """Text as UTF-8; None is returned as it is."""
    if column is None:
        return None
    if pa.types.is_string(column.type):
        return column.cast(pa.binary())
    if pa.types.is_large_string(column.type):
        return column.cast(pa.large_binary())
    return column


def _headers(given: list[dict[str, Any]] | None) -> Headers:
    return tuple((header["key"], header["value"]) for header in given) if given else ()


class RowBuffer:
    """Collects a task's batches, and returns them in order, as often as it is iterated."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self.rows = 0
        self._memory_bytes = memory_bytes
        self._kept: list[Any] = []
        self._kept_bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: Any = None

    def add(self, batch: Any) -> None:
        self.rows += batch.num_rows
        if self._file is None and self._kept_bytes + batch.nbytes <= self._memory_bytes:
            self._kept.append(batch)
            self._kept_bytes += batch.nbytes
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="strandline-rows-")  # noqa: SIM115 - closed by `close`
            self._writer = pa.ipc.new_stream(self._file, batch.schema)
        self._writer.write_batch(batch)

    def __iter__(self) -> Iterator[Any]:
        """After the first iteration no batch may be added."""
        yield from self._kept
        if self._file is not None:
            self._writer.close()
            self._file.seek(0)
            with pa.ipc.open_stream(self._file) as reader:
                yield from reader

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class Checks:
    """Checks every row of a task. `where` names the task in errors."""

    def __init__(self, topic: str | None, find: FindTopic, where: str) -> None:
        self._topic = topic
        self._find = find
        self._where = where
        self._rows = 0
        self.topics: dict[str, TopicFacts] = {}

    def check(self, batch: Any) -> None:
        """Check the task's next rows.

        Raises InvalidRecord, MessageTooLarge, UnknownTopicOrPartition, InvalidOption for a topic's name; each
        names the row, counted from 0 in the task.
        """
        rows = Rows(batch, self._topic)
        if rows.count:
            self._check_topics(rows)
            if rows.partitions is not None and rows.partitions.null_count < rows.count:
                self._check_partitions(rows)
            if rows.times is not None:
                self._check_times(rows)
            if rows.headers is not None and rows.headers.null_count < rows.count:
                self._check_headers(rows)
            self._check_keys(rows)
            self._check_sizes(rows)
        self._rows += rows.count

    def _row(self, index: int) -> str:
        return f"row {self._rows + index} of {self._where}"

    def _check_topics(self, rows: Rows) -> None:
        if rows.topics is None:
            names = [rows.topic]
        else:
            names = pc.unique(rows.topics).to_pylist()
        for name in names:
            if name in self.topics:
                continue
            index = 0 if rows.topics is None else rows.topics.to_pylist().index(name)
            if name is None:
                raise InvalidRecord(f"{self._row(index)} has no topic: give one, or the option topic for all")
            check_topic(name, f"{self._row(index)} is for topic {name!r}")
            try:
                self.topics[name] = self._find(name)
            except UnknownTopicOrPartition as error:
                raise UnknownTopicOrPartition(
                    f"{self._row(index)} is for topic {name!r}, which does not exist: create it first"
                ) from error

    def _facts(self, name: str | None) -> TopicFacts:
        assert name is not None  # every row has a topic by now
        return self.topics[name]

    def _check_partitions(self, rows: Rows) -> None:
        """Looks at single rows only if one is outside of the topic with the fewest partitions."""
        bounds = pc.min_max(rows.partitions)
        fewest = min(facts.partitions for facts in self.topics.values())
        if bounds["min"].as_py() >= 0 and bounds["max"].as_py() < fewest:
            return
        for index, (name, number) in enumerate(zip(rows.topic_of(), rows.partition_of(), strict=True)):
            partitions = self._facts(name).partitions
            if number is not None and not 0 <= number < partitions:
                raise UnknownTopicOrPartition(
                    f"{self._row(index)} is for partition {number} of {name}, "
                    f"which has partitions 0 to {partitions - 1}"
                )

    def _check_times(self, rows: Rows) -> None:
        """Looks at single rows only if one of them is refused."""
        assert rows.times is not None
        if (
            not rows.times.null_count
            and pc.min(rows.times.cast(pa.timestamp("us")).cast(pa.int64())).as_py() >= 0
        ):
            return
        for index, time in enumerate(rows.times_ms()):
            if time is None or time < 0:
                what = "no timestamp" if time is None else f"a timestamp before 1970, {time} ms"
                raise InvalidRecord(
                    f"{self._row(index)} has {what}: give one that no log refuses, or leave the column out"
                )

    def _check_headers(self, rows: Rows) -> None:
        assert rows.headers is not None
        for index, headers in enumerate(rows.headers.to_pylist()):
            if headers and any(header is None or header["key"] is None for header in headers):
                raise InvalidRecord(f"{self._row(index)} has a header without a key")

    def _check_keys(self, rows: Rows) -> None:
        if rows.keys is not None and not rows.keys.null_count:
            return
        if not any(facts.compacts for facts in self.topics.values()):
            return
        keys = [None] * rows.count if rows.keys is None else rows.keys.to_pylist()
        for index, (name, key) in enumerate(zip(rows.topic_of(), keys, strict=True)):
            if key is None and self._facts(name).compacts:
                raise InvalidRecord(f"{self._row(index)} has no key, and topic {name} is compacted by key")

    def _check_sizes(self, rows: Rows) -> None:
        """Checks single rows only if the largest key and value together could exceed the limit."""
        least = min(facts.bytes_max for facts in self.topics.values())
        longest = sum(
            pc.max(pc.binary_length(column)).as_py() or 0
            for column in (rows.keys, rows.values)
            if column is not None
        )
        if rows.headers is None and HEADER_BYTES + row_bytes((None, None, (), 0)) + longest <= least:
            return
        sizes = rows.columns(0).sizes()
        for index, (name, size) in enumerate(zip(rows.topic_of(), sizes, strict=True)):
            limit, size = self._facts(name).bytes_max, HEADER_BYTES + size
            if size > limit:
                raise MessageTooLarge(
                    f"{self._row(index)} takes up to {size} bytes, max.message.bytes of {name} is {limit}",
                    limit=limit,
                )


def first_failure(group: BaseExceptionGroup[Exception]) -> Exception:
    """The failure that ended a group; of several, an unexpected one first."""
    leaves: list[Exception] = []
    for error in group.exceptions:
        leaves.append(first_failure(error) if isinstance(error, ExceptionGroup) else error)  # type: ignore[arg-type]
    return next((leaf for leaf in leaves if not isinstance(leaf, StrandlineError)), leaves[0])
