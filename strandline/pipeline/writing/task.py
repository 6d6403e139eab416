"""A Spark task of the sink: checks its rows and writes them to their partitions, each once."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, Final

from strandline.adapters.system_host import system_host
from strandline.client.client import Client
from strandline.client.retry import retry
from strandline.config.client import ClientSettings
from strandline.config.load import load
from strandline.errors import BrokerNotAvailable, StrandlineError
from strandline.ids import TopicId, TopicPartition
from strandline.pipeline.core.identity import identity_of
from strandline.pipeline.core.sink_options import SinkOptions
from strandline.pipeline.loop_thread import call
from strandline.pipeline.writing.exactly_once import ExactlyOnceWriter, TopicFacts, Written
from strandline.pipeline.writing.partition_log import ClusterPartitionLog
from strandline.pipeline.writing.record_columns import Gathering, RecordColumns
from strandline.pipeline.writing.row_buffer import Checks, RowBuffer, Rows, first_failure
from strandline.producer.core.partitioner import partition_for
from strandline.records import Codec, PackedRecords
from strandline.vocabulary.topic_config import TopicConfig

logger = logging.getLogger(__name__)

LOOK_S_MAX: Final = 10.0
"""How long the driver of `df.write` waits for any broker's answer: the addresses may be wrong. A stream and a
task wait `deliveryTimeoutMs`, as they do for a write: Spark ends the query if they fail."""
PIECES_WAITING_MAX: Final = 2
"""Waiting batches of a target: the next one is prepared while one is in flight."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a batch that a task writes. `query`: the id by which repeats are recognized."""

    query: str
    batch: int
    spark_partition: int

    def __str__(self) -> str:
        return f"Spark partition {self.spark_partition} of batch {self.batch}"


class SinkClient(Client[ClientSettings]):
    """A connection to the cluster for one task, or one lookup; used on the loop only."""

    def __init__(self, options: SinkOptions) -> None:
        to = options.connection
        settings = load(ClientSettings, request_timeout_ms=options.request_timeout_ms, **to.settings)
        host = system_host(settings)
        super().__init__("sink", to.bootstrap, settings, host.transport(None), host.clock)
        self._delivery_s = options.delivery_timeout_ms / 1000

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def log(self, name: TopicPartition, topic_id: TopicId) -> ClusterPartitionLog:
        return ClusterPartitionLog(
            name, topic_id, self._cluster, self._settings, self._clock, delivery_s=self._delivery_s
        )

    async def facts(self, topic: str, limit_s: float | None = None) -> TopicFacts:
        """The facts of a topic, within `limit_s` (None: `deliveryTimeoutMs`). Raises UnknownTopicOrPartition,
        BrokerNotAvailable."""
        metadata = await retry(
            lambda: self._cluster.topic(topic),
            f"the look at topic {topic} waits",
            settings=self._settings,
            clock=self._clock,
            limit_s=self._delivery_s if limit_s is None else limit_s,
            level=logging.WARNING,
            retriable=lambda error: isinstance(error, BrokerNotAvailable),
        )
        config = TopicConfig.parse(metadata.config)
        count = len(metadata.partitions)
        return TopicFacts(count, config.batch_bytes_max, config.compacts, metadata.topic_id)


async def look_up(options: SinkOptions, topic: str, limit_s: float | None = None) -> TopicFacts:
    """As `SinkClient.facts`."""
    async with SinkClient(options) as client:
        return await client.facts(topic, limit_s)


def write_rows(
    batches: Iterator[Any], options: SinkOptions, known: Mapping[str, TopicFacts], piece: Piece
) -> list[Written]:
    """Write the rows of Arrow batches; returns once each is in the log, once. Called by the task's thread.

    `known`: topics that the driver looked up, so that all tasks see the same facts. An invalid row raises
    before anything is written; another error may leave some of the rows written.
    """

    def find(topic: str) -> TopicFacts:
        return known[topic] if topic in known else call(look_up(options, topic))

    with closing(RowBuffer()) as buffer:
        checks = Checks(options.topic, find, str(piece))
        for batch in batches:
            checks.check(batch)
            buffer.add(batch)
        return call(append_rows(buffer, options, checks.topics, piece)) if buffer.rows else []


async def append_rows(
    buffer: RowBuffer, options: SinkOptions, topics: Mapping[str, TopicFacts], piece: Piece
) -> list[Written]:
    """Write checked rows; `topics` has the facts of all their topics. Raises the error that kept rows out of
    the log."""
    async with SinkClient(options) as client:
        writing = Writing(client, options, topics, piece)
        try:
            return await writing.run(buffer)
        except ExceptionGroup as group:
            raise first_failure(group) from group


class Writing:
    """Distributes a task's rows to the writers of their partitions, which run concurrently."""

    def __init__(
        self, client: SinkClient, options: SinkOptions, topics: Mapping[str, TopicFacts], piece: Piece
    ) -> None:
        self._client = client
        self._options = options
        self._topics = topics
        self._piece = piece
        self._targets: dict[TopicPartition, _Target] = {}

    async def run(self, buffer: RowBuffer) -> list[Written]:
        async with asyncio.TaskGroup() as tasks:
            for batch in buffer:
                rows = Rows(batch, self._options.topic)
                timed = rows.times is not None
                for name, columns in self.dealt(rows).items():
                    target = self._targets.get(name)
                    if target is None:
                        target = self._targets[name] = self._open(name, timed)
                        tasks.create_task(target.run())
                    await target.put(columns)
            for target in self._targets.values():
                await target.finish()
        return [target.writer.end() for _, target in sorted(self._targets.items())]

    def dealt(self, rows: Rows) -> dict[TopicPartition, RecordColumns]:
        """Rows by target, in order: the row's partition, else that of its key, else that of the task."""
        columns = rows.columns(self._client.wall_ms())
        if rows.topic is not None and rows.keys is None and rows.partitions is None:
            count = self._topics[rows.topic].partitions
            return {TopicPartition(rows.topic, self._piece.spark_partition % count): columns}
        keys = repeat(None, rows.count) if columns.keys is None else columns.keys
        dealt: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for index, (topic, number, key) in enumerate(
            zip(rows.topic_of(), rows.partition_of(), keys, strict=True)
        ):
            assert topic is not None  # checked before
            if number is None:
                count = self._topics[topic].partitions
                number = self._piece.spark_partition % count if key is None else partition_for(key, count)
            dealt[topic, number].append(index)
        return {TopicPartition(*name): columns.chosen(indexes) for name, indexes in dealt.items()}

    def _open(self, name: TopicPartition, timed: bool) -> _Target:
        facts, piece = self._topics[name.topic], self._piece
        log = self._client.log(name, facts.topic_id)
        bytes_max = min(self._options.batch_bytes, facts.bytes_max)
        writer = ExactlyOnceWriter(
            name,
            log,
            partial(identity_of, piece.query, piece.spark_partition, piece.batch),
            codec=self._options.codec,
            bytes_max=bytes_max,
            timed=timed,
            compacts=facts.compacts,
        )
        return _Target(writer, self._options.codec, bytes_max, log.close)


class _Target:
    """A partition's writer and the batches that wait for it, which are packed while another is in flight."""

    def __init__(
        self, writer: ExactlyOnceWriter, codec: Codec, bytes_max: int, close: Callable[[], None]
    ) -> None:
        self.writer = writer
        self._codec = codec
        self._bytes_max = bytes_max
        self._close = close
        self._gathering = Gathering(bytes_max)
        self._waiting: asyncio.Queue[tuple[PackedRecords, RecordColumns] | None] = asyncio.Queue(
            PIECES_WAITING_MAX
        )

    async def put(self, columns: RecordColumns) -> None:
        """Waits while too many batches are waiting."""
        for piece in self._gathering.add(columns):
            await self._put(piece)

    async def finish(self) -> None:
        if self._gathering:
            await self._put(self._gathering.rest())
        await self._waiting.put(None)

    async def _put(self, piece: RecordColumns) -> None:
        await self._waiting.put((piece.packed(self._codec, self._bytes_max), piece))

    async def run(self) -> None:
        """Write the queued batches, until there are no more."""
        try:
            while (waiting := await self._waiting.get()) is not None:
                packed, piece = waiting
                await self.writer.write_batch(packed, piece.records)
        except StrandlineError as error:
            logger.warning("%s is not written: %s", self.writer.name, error.message)
            raise
        finally:
            self._close()
