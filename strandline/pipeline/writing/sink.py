"""The sink on the driver: checks the request, and logs the result.

Only the tasks determine which rows are in the log; no step here is needed for exactly-once. Writers are
pickled to the executors, and must not hold anything open. Spark starts a new process for many of its calls,
for each batch again: so gRPC is imported only where a broker is called.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from strandline.errors import UnknownTopicOrPartition
from strandline.pipeline.core.sink_options import SinkOptions, check_columns, sink_options
from strandline.pipeline.errors import InvalidOption
from strandline.pipeline.writing.exactly_once import TopicFacts, Written

logger = logging.getLogger(__name__)

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"


@dataclass(frozen=True)
class SinkCommit(WriterCommitMessage):
    """The records that a task has written, by partition."""

    written: tuple[Written, ...]


@dataclass(frozen=True)
class _Sink:
    """The data that both writers pass to their tasks. `topics`: the driver's facts of the common topic."""

    options: SinkOptions
    topics: Mapping[str, TopicFacts]

    def write(self, batches: Iterator[Any], query: str, batch: int) -> SinkCommit:
        from strandline.pipeline.writing.task import Piece, write_rows

        context = _task()
        piece = Piece(query, batch, context.partitionId())
        return SinkCommit(tuple(write_rows(batches, self.options, self.topics, piece)))


def batch_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> DataSourceArrowWriter:
    """The writer of `df.write`. Raises InvalidOption, InvalidSchema, UnknownTopicOrPartition,
    BrokerNotAvailable."""
    if overwrite:
        raise InvalidOption('mode "overwrite": a topic is only ever written behind; use mode("append")')
    return BatchWriter(_sink(schema, options, stream=False), f"write {uuid.uuid4()}")


def stream_writer(
    schema: StructType, options: Mapping[str, str], overwrite: bool
) -> DataSourceStreamArrowWriter:
    """The writer of `df.writeStream`, created for each micro-batch. Raises as `batch_writer`."""
    if overwrite:
        raise InvalidOption(
            'output mode "complete": a topic is only written behind; use outputMode("update") or "append"'
        )
    return StreamWriter(_sink(schema, options, stream=True))


def _sink(schema: StructType, given: Mapping[str, str], *, stream: bool) -> _Sink:
    options = sink_options(given)
    check_columns([(field.name, field.dataType.simpleString()) for field in schema.fields], options)
    topics: dict[str, TopicFacts] = {}
    if options.topic is not None:
        from strandline.pipeline.loop_thread import call
        from strandline.pipeline.writing.task import LOOK_S_MAX, look_up

        limit_s = None if stream else LOOK_S_MAX
        try:
            topics[options.topic] = call(look_up(options, options.topic, limit_s))
        except UnknownTopicOrPartition as error:
            raise UnknownTopicOrPartition(
                f"topic = {options.topic!r}: there is no such topic, create it first ({error.message})"
            ) from error
    return _Sink(options, topics)


class BatchWriter(DataSourceArrowWriter):
    """`df.write`: each of its rows once, however often its tasks are repeated; two writes are independent."""

    def __init__(self, sink: _Sink, query: str) -> None:
        self._sink = sink
        self._query = query

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._sink.write(iterator, self._query, 0)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        logger.info("written: %s", _summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        logger.warning(
            "the write failed; what it wrote before stays, and another write will not know of it: %s",
            _summary(messages),
        )


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`: each row of a micro-batch once, however often its tasks, the batch or the query are
    repeated."""

    def __init__(self, sink: _Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = _task()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise RuntimeError(
                f"Spark does not say which batch this is: {QUERY_ID}={query}, {BATCH_ID}={batch}"
            )
        return self._sink.write(iterator, query, int(batch))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        logger.info("batch %d is written: %s", batchId, _summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        logger.warning(
            "batch %d failed; what it wrote before stays, and is not written again when it is repeated: %s",
            batchId,
            _summary(messages),
        )


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "only a task writes"
    return context


def _summary(messages: Sequence[WriterCommitMessage | None]) -> str:
    """Offsets by partition, and the number of tasks without a result."""
    found = [w for message in messages if isinstance(message, SinkCommit) for w in message.written]
    parts = [f"{w.name} {w.first_offset}..{w.last_offset} ({w.records} records)" for w in found if w.records]
    silent = sum(message is None for message in messages)
    if silent:
        parts.append(f"{silent} tasks said nothing")
    return ", ".join(parts) or "no records"
