"""Transactions by strandline's own clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from strandline import Consumer, Producer, RebalanceListener, TopicPartition
from strandline.errors import StrandlineError
from strandline.ports import Clock
from strandline.producer.transactions import Transaction
from strandline.vocabulary.groups import GroupMetadata
from strandline_lab.chaos.history_lines import HistoryLines, Stopped
from strandline_lab.chaos.kafka.options import HEARTBEAT_MS
from strandline_lab.chaos.transactions.lines import First, Source, TransactionLines, ends_of
from strandline_lab.chaos.transactions.options import (
    COLLECT_S,
    INPUTS_MAX,
    TIMEOUT_MS,
    Lots,
    Processing,
    Transacting,
)

DELIVERY_MS: Final = 30_000
COLLECT_MS: Final = round(COLLECT_S * 1000)
Settings = Mapping[str, Any]
"""Of all clients: how they connect."""
Fill = Callable[[Transaction], Awaitable[None]]
"""Sends what belongs to a transaction."""


class Transactor:
    """A producer with a transactional id, and the history of its transactions."""

    def __init__(self, producer: Producer, wanted: Transacting, lines: TransactionLines) -> None:
        self._producer = producer
        self._topic = wanted.connection.topic
        self._partitions = wanted.partitions
        self._lines = lines
        self._sent: dict[int, asyncio.Future[Any]] = {}

    async def send(self, source: Source | None = None) -> None:
        record, value = self._lines.sent(source)
        partition = record % self._partitions
        self._sent[record] = await self._producer.send(self._topic, value, partition=partition)

    async def run(self, fill: Fill, *, commits: bool) -> bool:
        """Runs `fill` in a transaction, and ends that: by an abort if it cannot be committed, or if `fill`
        raises. True if it was committed. Raises StrandlineError if this producer cannot go on."""
        self._lines.begin()
        self._sent = {}
        try:
            async with self._producer.transaction() as transaction:
                await fill(transaction)
                if not commits:
                    await transaction.abort()
        except StrandlineError as error:
            if self._producer.failure is not None:
                self._lines.unknown(error)
                raise
            commits = False
        if not commits:
            self._lines.aborted()
            return False
        for record, ended in self._sent.items():
            metadata = ended.result()
            self._lines.delivered(record, metadata.partition, metadata.offset)
        self._lines.committed()
        return True


async def produce(
    wanted: Transacting, settings: Settings, lines: HistoryLines, prefix: str, clock: Clock, stopped: Stopped
) -> None:
    """Sends records in transactions until it is stopped, and aborts the last one. Raises StrandlineError."""
    notes, lots = TransactionLines(lines, prefix), Lots(prefix)
    async with _producer(wanted, settings) as producer:
        transactor = Transactor(producer, wanted, notes)

        async def fill(_: Transaction) -> None:
            for _record in range(lots.records()):
                await clock.sleep(1 / wanted.rate)
                if not stopped():
                    await transactor.send()

        while not stopped():
            await transactor.run(fill, commits=lots.commits())


class _Inputs(RebalanceListener):
    """What a processor is given, and what its history says of it."""

    def __init__(self, consumer: Consumer, lines: HistoryLines) -> None:
        self._consumer = consumer
        self._lines = lines
        self._first = First()

    def on_assigned(self, added: set[TopicPartition]) -> None:
        self._moved("assigned", added)

    def on_revoked(self, removed: set[TopicPartition]) -> None:
        self._moved("revoked", removed)

    def on_lost(self, lost: set[TopicPartition]) -> None:
        self._moved("lost", lost)

    def _moved(self, event: str, partitions: Iterable[TopicPartition]) -> None:
        numbers = [each.partition for each in partitions]
        if numbers:
            self._first.assigned(numbers)
            self._lines.owned(event, numbers, self._consumer.group_metadata().member_id)

    async def collect(self) -> list[Source]:
        """The inputs of the next transaction, maybe none. Raises StrandlineError."""
        taken = await self._consumer.getmany(timeout_ms=COLLECT_MS, max_records=INPUTS_MAX)
        for records in taken.values():
            for each in records:
                if self._first.is_first(each.partition, each.offset):
                    self._lines.received(each.partition, each.offset, each.timestamp, each.key, each.value)
        return [(each.topic, each.partition, each.offset) for records in taken.values() for each in records]

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        for name, offset in offsets.items():
            self._lines.commit_acked(name.partition, offset)

    async def rewind(self) -> None:
        """Goes back to what is committed. Raises StrandlineError."""
        for name in sorted(self._consumer.assignment()):
            committed = await self._consumer.committed(name)
            if committed is not None:
                self._consumer.seek(name, committed.offset)
            else:
                await self._consumer.seek_to_beginning(name)


async def process(
    wanted: Processing,
    settings: Settings,
    inputs: HistoryLines,
    outputs: HistoryLines,
    prefix: str,
    stopped: Stopped,
) -> None:
    """Makes an output of each input, and commits the offsets with them, until it is stopped. Raises
    StrandlineError."""
    lots, producing = Lots(prefix), wanted.producing
    async with (
        Consumer(
            producing.connection.bootstrap,
            group_id=wanted.group,
            client_id=producing.connection.client_id,
            enable_auto_commit=False,
            isolation_level="read_committed",
            offset_reset="earliest",
            session_timeout_ms=wanted.session_timeout_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            **settings,
        ) as consumer,
        _producer(producing, settings) as producer,
    ):
        transactor = Transactor(producer, producing, TransactionLines(outputs, prefix))
        member = _Inputs(consumer, inputs)
        consumer.subscribe([wanted.source], listener=member)
        while not stopped():
            taken = await member.collect()
            if not taken:
                continue
            offsets = {TopicPartition(*name): end for name, end in ends_of(taken).items()}
            group = consumer.group_metadata()

            async def fill(
                transaction: Transaction,
                taken: Sequence[Source] = taken,
                offsets: Mapping[TopicPartition, int] = offsets,
                group: GroupMetadata = group,
            ) -> None:
                for source in taken:
                    await transactor.send(source)
                await transaction.send_offsets(offsets, group)

            if await transactor.run(fill, commits=lots.commits()):
                member.committed(offsets)
            else:
                await member.rewind()


def _producer(wanted: Transacting, settings: Settings) -> Producer:
    return Producer(
        wanted.connection.bootstrap,
        transactional_id=wanted.transactional_id,
        transaction_timeout_ms=TIMEOUT_MS,
        delivery_timeout_ms=DELIVERY_MS,
        client_id=wanted.connection.client_id,
        **settings,
    )
