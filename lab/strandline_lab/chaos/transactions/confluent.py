"""Transactions by confluent-kafka (librdkafka). Its calls block, and serve its callbacks."""

from __future__ import annotations

import faulthandler
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place

from strandline.ports import Clock
from strandline_lab.chaos.history_lines import HistoryLines, Stopped
from strandline_lab.chaos.kafka.options import HEARTBEAT_MS, Connection
from strandline_lab.chaos.transactions.lines import First, Source, TransactionLines, ends_of
from strandline_lab.chaos.transactions.options import (
    COLLECT_S,
    INPUTS_MAX,
    TIMEOUT_MS,
    Lots,
    Processing,
    Transacting,
)

POLL_S: Final = 0.1
CALL_S_MAX: Final = 5.0
HANGS_AFTER_S: Final = 20.0
"""For all attempts of a call together; a transaction times out before."""
SETTINGS: Final[dict[str, Any]] = {
    "socket.timeout.ms": 5_000,
    "reconnect.backoff.max.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 5_000,
}


class _ToAbort(Exception):
    """The transaction can only be aborted."""


class Transactor:
    """A producer with a transactional id, which it takes from any other."""

    def __init__(self, wanted: Transacting, lines: TransactionLines) -> None:
        """Raises KafkaException."""
        self._lines = lines
        self._topic = wanted.connection.topic
        self._partitions = wanted.partitions
        self._producer = Producer(
            {
                **SETTINGS,
                **wanted.connection.for_librdkafka,
                "transactional.id": wanted.transactional_id,
                "transaction.timeout.ms": TIMEOUT_MS,
                "debug": "eos",
            }
        )
        self._until_done(self._producer.init_transactions, CALL_S_MAX)

    def run(self, fill: Callable[[], None], *, commits: bool) -> bool:
        """Runs `fill` in a transaction, and ends that: by an abort if it cannot be committed. True if it was
        committed.

        After another error of `fill` the transaction stays open. Raises KafkaException if this producer
        cannot go on.
        """
        self._lines.begin()
        try:
            self._until_done(self._producer.begin_transaction)
            try:
                fill()
                if commits:
                    self._until_done(self._producer.commit_transaction, CALL_S_MAX)
            except _ToAbort:
                commits = False
            if not commits:
                self._until_done(self._producer.abort_transaction, CALL_S_MAX)
        except KafkaException as error:
            self._lines.unknown(error)
            raise
        if commits:
            self._lines.committed()
        else:
            self._lines.aborted()
        return commits

    def send(self, source: Source | None = None) -> None:
        """Raises _ToAbort, KafkaException."""
        record, value = self._lines.sent(source)
        delivered = partial(self._delivered, record)
        partition = record % self._partitions
        self._until_done(
            partial(self._producer.produce, self._topic, value, partition=partition, on_delivery=delivered)
        )
        self._producer.poll(0)

    def send_offsets(self, offsets: list[Place], consumer: Consumer) -> None:
        """Ends the process, with the stacks of its threads on standard error, if librdkafka ignores the
        limit: 2.16 may wait for good for a group's coordinator that was stopped (its issues 5456, 5511)."""
        group = consumer.consumer_group_metadata()
        faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
        try:
            self._until_done(self._producer.send_offsets_to_transaction, offsets, group, CALL_S_MAX)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def poll(self, seconds: float) -> None:
        self._producer.poll(seconds)

    def _delivered(self, record: int, error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is None and partition is not None and offset is not None:
            self._lines.delivered(record, partition, offset)

    def _until_done(self, call: Callable[..., object], *arguments: object) -> None:
        """Repeats a call that may be. Raises _ToAbort, KafkaException."""
        while True:
            try:
                call(*arguments)
            except KafkaException as error:
                what: KafkaError = error.args[0]
                # _STATE: something of the transaction has failed already.
                if what.txn_requires_abort() or what.code() == KafkaError._STATE:
                    raise _ToAbort from error
                if not what.retriable():
                    raise
            else:
                return


def produce(wanted: Transacting, lines: HistoryLines, prefix: str, clock: Clock, stopped: Stopped) -> None:
    """Sends records in transactions until it is stopped, and leaves the last one open. Raises
    KafkaException."""
    notes, lots = TransactionLines(lines, prefix), Lots(prefix)
    transactor = Transactor(wanted, notes)

    def fill() -> None:
        for _ in range(lots.records()):
            _pass(transactor, clock, 1 / wanted.rate)
            if stopped():
                raise _LeftOpen
            transactor.send()

    with suppress(_LeftOpen):
        while True:
            transactor.run(fill, commits=lots.commits())
    notes.aborted()


class _LeftOpen(Exception):
    """The producer ends within a transaction."""


def _pass(transactor: Transactor, clock: Clock, seconds: float) -> None:
    due = clock.monotonic() + seconds
    while (wait_s := due - clock.monotonic()) > 0:
        transactor.poll(min(wait_s, POLL_S))


class _Member:
    """The inputs of a processor, and what its history says of them."""

    def __init__(self, connection: Connection, wanted: Processing, lines: HistoryLines) -> None:
        self._lines = lines
        self._first = First()
        self._taken: list[Message] = []
        self.consumer = Consumer(
            {
                **SETTINGS,
                **connection.for_librdkafka,
                "group.id": wanted.group,
                "partition.assignment.strategy": "range",
                "session.timeout.ms": wanted.session_timeout_ms,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.error.backoff.ms": 100,
            }
        )
        self.consumer.subscribe(
            [wanted.source],
            on_assign=partial(self._moved, "assigned"),
            on_revoke=partial(self._moved, "revoked"),
            on_lost=partial(self._moved, "lost"),
        )

    def _moved(self, event: str, _: Consumer, partitions: list[Place]) -> None:
        """Nothing is processed of a partition that was given up."""
        numbers = [each.partition for each in partitions]
        self._first.assigned(numbers)
        self._taken = [each for each in self._taken if each.partition() not in numbers]
        self._lines.owned(event, numbers, self.consumer.memberid() or "")

    def collect(self, clock: Clock) -> list[Message]:
        """The inputs of the next transaction, maybe none. Raises KafkaException."""
        self._taken, due = [], clock.monotonic() + COLLECT_S
        while len(self._taken) < INPUTS_MAX and (wait_s := due - clock.monotonic()) > 0:
            message = self.consumer.poll(wait_s)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._taken.append(message)
                self._note(message)
            elif error.fatal():
                raise KafkaException(error)
        return self._taken

    def _note(self, message: Message) -> None:
        _, partition, offset = source_of(message)
        if self._first.is_first(partition, offset):
            self._lines.received(partition, offset, message.timestamp()[1], message.key(), message.value())

    def committed(self, offsets: list[Place]) -> None:
        for each in offsets:
            self._lines.commit_acked(each.partition, each.offset)

    def rewind(self) -> None:
        """Goes back to what is committed. Raises KafkaException."""
        for each in self.consumer.committed(self.consumer.assignment(), CALL_S_MAX):
            offset = each.offset if each.offset >= 0 else OFFSET_BEGINNING
            self.consumer.seek(Place(each.topic, each.partition, offset))


def source_of(message: Message) -> Source:
    """Topic, partition and offset of a message without an error."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None, "a record has a place"
    return topic, partition, offset


def process(
    wanted: Processing,
    inputs: HistoryLines,
    outputs: HistoryLines,
    prefix: str,
    clock: Clock,
    stopped: Stopped,
) -> None:
    """Makes an output of each input, and commits the offsets with them, until it is stopped. Raises
    KafkaException."""
    lots = Lots(prefix)
    transactor = Transactor(wanted.producing, TransactionLines(outputs, prefix))
    member = _Member(wanted.producing.connection, wanted, inputs)
    with closing(member.consumer):
        while not stopped():
            taken = [source_of(each) for each in member.collect(clock)]
            if not taken:
                continue
            offsets = [Place(*name, end) for name, end in ends_of(taken).items()]

            def fill(taken: Sequence[Source] = taken, offsets: list[Place] = offsets) -> None:
                for source in taken:
                    transactor.send(source)
                transactor.send_offsets(offsets, member.consumer)

            if transactor.run(fill, commits=lots.commits()):
                member.committed(offsets)
            else:
                member.rewind()
