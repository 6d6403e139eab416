"""What a Spark task of the sink does: its rows, checked, to the partitions that they are for, each once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from strandline.client.client import Client
from strandline.client.retry import retry
from strandline.config import ClientSettings
from strandline.errors import BrokerNotAvailable, StrandlineError
from strandline.ids import TopicPartition
from strandline.pipeline.core.identity import identity_of
from strandline.pipeline.core.sink_options import SinkOptions
from strandline.pipeline.loop_thread import call
from strandline.pipeline.writing.exactly_once import Lane, TopicFacts, Written, row_bytes
from strandline.pipeline.writing.partition_log import ClusterPartitionLog
from strandline.pipeline.writing.row_buffer import Checks, Rows, Spool, first_failure
from strandline.producer.core.partitioner import partition_for
from strandline.records import HEADER_BYTES, RecordFields
from strandline.vocabulary.topic_config import TopicConfig

logger = logging.getLogger(__name__)

LOOK_S_MAX: Final = 10.0
"""For any broker to answer: Spark on one machine does not repeat a task for one that was busy."""
PIECES_WAITING_MAX: Final = 2
"""Of a target, cut and not yet taken up: the next is made ready while one is on its way."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Which part of which batch a task writes. `query`: the id under which repeats are recognized."""

    query: str
    batch: int
    spark_partition: int

    def __str__(self) -> str:
        return f"Spark partition {self.spark_partition} of batch {self.batch}"


class SinkClient(Client[ClientSettings]):
    """A connection to the cluster for as long as one task, or one look, takes; used on the loop only."""

    def __init__(self, options: SinkOptions) -> None:
        settings = ClientSettings(request_timeout_ms=options.request_timeout_ms)
        super().__init__("sink", options.bootstrap, settings, None, None)
        self._delivery_s = options.delivery_timeout_ms / 1000

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def log(self, name: TopicPartition) -> ClusterPartitionLog:
        return ClusterPartitionLog(
            name, self._cluster, self._settings, self._clock, delivery_s=self._delivery_s
        )

    async def facts(self, topic: str) -> TopicFacts:
        """The facts of a topic, within LOOK_S_MAX. Raises UnknownTopicOrPartition, BrokerNotAvailable."""
        metadata = await retry(
            lambda: self._cluster.topic(topic),
            f"the look at topic {topic} waits",
            settings=self._settings,
            clock=self._clock,
            limit_s=LOOK_S_MAX,
            retriable=lambda error: isinstance(error, BrokerNotAvailable),
        )
        config = TopicConfig.parse(metadata.config)
        return TopicFacts(len(metadata.partitions), config.max_message_bytes, config.compacts)


async def look_up(options: SinkOptions, topic: str) -> TopicFacts:
    """What is to be known of a topic. Raises UnknownTopicOrPartition, BrokerNotAvailable."""
    async with SinkClient(options) as client:
        return await client.facts(topic)


def write_rows(
    batches: Iterator[Any], options: SinkOptions, known: Mapping[str, TopicFacts], piece: Piece
) -> list[Written]:
    """Write the rows of Arrow batches; returns when each is in the log, once. Called by the task's thread.

    `known`: topics that the driver looked at, so that all tasks see the same. Raises before anything is
    written what is wrong with a row; else what kept the rows from being written, some of which may be.
    """

    def find(topic: str) -> TopicFacts:
        return known[topic] if topic in known else call(look_up(options, topic))

    with closing(Spool()) as spool:
        checks = Checks(options.topic, find, str(piece))
        for batch in batches:
            checks.check(batch)
            spool.add(batch)
        return call(append_rows(spool, options, checks.topics, piece)) if spool.rows else []


async def append_rows(
    spool: Spool, options: SinkOptions, topics: Mapping[str, TopicFacts], piece: Piece
) -> list[Written]:
    """Write rows that are checked already; `topics` has all of theirs. Raises what kept them from the log."""
    async with SinkClient(options) as client:
        writing = Writing(client, options, topics, piece)
        try:
            return await writing.run(spool)
        except ExceptionGroup as group:
            raise first_failure(group) from group


class Writing:
    """Deals a task's rows to the lanes of their partitions, which work side by side."""

    def __init__(
        self, client: SinkClient, options: SinkOptions, topics: Mapping[str, TopicFacts], piece: Piece
    ) -> None:
        self._client = client
        self._options = options
        self._topics = topics
        self._piece = piece
        self._targets: dict[TopicPartition, _Target] = {}

    async def run(self, spool: Spool) -> list[Written]:
        async with asyncio.TaskGroup() as tasks:
            for batch in spool:
                rows = Rows(batch, self._options.topic)
                timed = rows.times is not None
                for name, records in self.dealt(rows).items():
                    target = self._targets.get(name)
                    if target is None:
                        target = self._targets[name] = self._open(name, timed)
                        tasks.create_task(target.run())
                    await target.put(records)
            for target in self._targets.values():
                await target.finish()
        return [target.lane.end() for _, target in sorted(self._targets.items())]

    def dealt(self, rows: Rows) -> dict[TopicPartition, list[RecordFields]]:
        """Rows by their target, in their order: where a row says so, else by its key, else by the task."""
        records = rows.records(self._client.wall_ms())
        if rows.topic is not None and rows.keys is None and rows.partitions is None:
            count = self._topics[rows.topic].partitions
            return {TopicPartition(rows.topic, self._piece.spark_partition % count): records}
        dealt: dict[TopicPartition, list[RecordFields]] = {}
        for topic, number, record in zip(rows.topic_of(), rows.partition_of(), records, strict=True):
            assert topic is not None  # checked before
            if number is None:
                count, key = self._topics[topic].partitions, record[0]
                number = self._piece.spark_partition % count if key is None else partition_for(key, count)
            dealt.setdefault(TopicPartition(topic, number), []).append(record)
        return dealt

    def _open(self, name: TopicPartition, timed: bool) -> _Target:
        facts, piece = self._topics[name.topic], self._piece
        log = self._client.log(name)
        bytes_max = min(self._options.batch_bytes, facts.bytes_max)
        lane = Lane(
            name,
            log,
            partial(identity_of, piece.query, piece.spark_partition, piece.batch),
            codec=self._options.codec,
            bytes_max=bytes_max,
            timed=timed,
            compacts=facts.compacts,
        )
        return _Target(lane, bytes_max, log.close)


class _Target:
    """A lane and what waits for it, in pieces of a batch."""

    def __init__(self, lane: Lane, bytes_max: int, close: Callable[[], None]) -> None:
        self.lane = lane
        self._close = close
        self._bytes_max = bytes_max
        self._pieces: asyncio.Queue[list[RecordFields]] = asyncio.Queue(PIECES_WAITING_MAX)
        self._open: list[RecordFields] = []
        self._room = bytes_max - HEADER_BYTES

    async def put(self, records: Sequence[RecordFields]) -> None:
        """Waits while enough is waiting."""
        for record in records:
            size = row_bytes(record)
            if size > self._room and self._open:
                await self._pieces.put(self._open)
                self._open, self._room = [], self._bytes_max - HEADER_BYTES
            self._open.append(record)
            self._room -= size

    async def finish(self) -> None:
        if self._open:
            await self._pieces.put(self._open)
        await self._pieces.put([])

    async def run(self) -> None:
        """Write what is put, until there is no more."""
        try:
            while rows := await self._pieces.get():
                await self.lane.write(rows)
        except StrandlineError as error:
            logger.warning("%s is not written: %s", self.lane.name, error.message)
            raise
        finally:
            self._close()
