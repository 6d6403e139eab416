"""Clients of confluent-kafka (librdkafka). Its calls block, and serve its callbacks."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from strandline.errors import Outcome
from strandline.ports import Clock
from strandline_lab.chaos.history_lines import HistoryLines, Stopped, all_received
from strandline_lab.chaos.kafka.options import (
    COMMIT_MS,
    HEARTBEAT_MS,
    Connection,
    Membership,
    Produced,
    Reading,
)
from strandline_lab.chaos.kafka.outcomes import outcome_of
from strandline_lab.chaos.kafka.repeats import Repeats

POLL_S: Final = 0.1
WATERMARK_S_MAX: Final = 1.0
METADATA_S_MAX: Final = 15.0
FLUSH_S: Final = 1.0
SETTINGS: Final[dict[str, Any]] = {
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 5_000,
}
"""Shorter than the defaults, since a round is: a minute without an answer would be most of it."""

IDEMPOTENT: Final[dict[str, Any]] = {"enable.idempotence": True, "debug": "eos"}
"""Its standard error has each new epoch that it takes, and why: that tells whose fault a duplicate is."""


class Failed(Exception):
    """The client cannot continue."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.str())
        self.error = error


def produce(
    connection: Connection, wanted: Produced, lines: HistoryLines, clock: Clock, stopped: Stopped
) -> None:
    """Sends numbered records until it is stopped, and waits for all answers. With acks=all it is idempotent.
    With acks=1 it never tries again, so that no record is stored twice.

    Raises KafkaException, Failed.
    """
    promised = wanted.acks == "all"
    settings = {
        **SETTINGS,
        **connection.for_librdkafka,
        "acks": wanted.acks,
        "message.timeout.ms": wanted.delivery_timeout_ms,
        "max.in.flight.requests.per.connection": 5,
        **(IDEMPOTENT if promised else {"message.send.max.retries": 0}),
    }
    fatal: list[KafkaError] = []
    producer = Producer(
        {**settings, "error_cb": lambda error: fatal.append(error) if error.fatal() else None}
    )

    def delivered(record: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            outcome = outcome_of(error.code(), retries=promised)
            lines.failed(record, error.code(), error.name(), outcome, error.str())
        elif promised:
            lines.acked(record, *_place(message))

    due = clock.monotonic()
    for record in itertools.count():
        while (wait_s := due - clock.monotonic()) > 0 and not stopped():
            producer.poll(min(wait_s, POLL_S))
        if stopped():
            break
        due = max(due + 1 / wanted.rate, clock.monotonic() - POLL_S)
        key, value = wanted.record(record)
        lines.sent(record, key, value)
        try:
            producer.produce(connection.topic, value, key, on_delivery=partial(delivered, record))
        except BufferError as error:
            lines.failed(record, KafkaError._QUEUE_FULL, "_QUEUE_FULL", Outcome.RETRIABLE, str(error))
        producer.poll(0)
        if fatal:
            break
    while producer.flush(FLUSH_S):
        pass
    if fatal:
        raise Failed(fatal[0])


def read(
    connection: Connection, wanted: Reading, lines: HistoryLines, clock: Clock, stopped: Stopped
) -> None:
    """Reads all partitions that the topic has now, from their beginnings, until it is stopped. Then it reads
    on to their ends: a reader that does not get there does not end.

    An offset that no broker has sends it back to the beginning, which the checks of its history find.
    Raises KafkaException, Failed.
    """
    consumer = Consumer(
        {
            **SETTINGS,
            **connection.for_librdkafka,
            "group.id": f"{connection.client_id}-has-no-group",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.error.backoff.ms": 100,
            # After the last record of a log there may be markers of transactions, which no reader gets.
            "enable.partition.eof": True,
        }
    )
    try:
        described = consumer.list_topics(connection.topic, METADATA_S_MAX).topics[connection.topic]
        if described.error is not None:
            raise KafkaException(described.error)
        proven = dict.fromkeys(described.partitions, 0)
        consumer.assign(
            [TopicPartition(connection.topic, number, OFFSET_BEGINNING) for number in described.partitions]
        )
        lines.assigned(list(described.partitions))

        def read_some() -> None:
            message = consumer.poll(POLL_S)
            if message is None:
                return
            if place := _received(message, lines):
                proven[place[0]] = max(proven[place[0]], place[1] + 1)
            elif (error := message.error()) is not None and error.code() == KafkaError._PARTITION_EOF:
                number, end = _place(message)
                proven[number] = max(proven[number], end)

        due, ends = clock.monotonic(), dict[int, int]()
        while not stopped() or not all_received(proven, ends):
            read_some()
            if clock.monotonic() >= due:
                ended = stopped()
                found = _ask_for_watermarks(consumer, connection, lines, proven)
                ends = found if ended else {}
                due = clock.monotonic() + wanted.watermarks_s
    finally:
        consumer.close()


def join(connection: Connection, wanted: Membership, lines: HistoryLines, stopped: Stopped) -> None:
    """Reads its share of the topic as a member of a group, and leaves the group once it is stopped.

    A record that librdkafka hands over twice in a rebalance (`repeats`) has one line in the history, and one
    on standard error. Raises KafkaException, Failed.
    """
    consumer = Consumer(
        {
            **SETTINGS,
            **connection.for_librdkafka,
            "group.id": wanted.group,
            "partition.assignment.strategy": wanted.assignor,
            "session.timeout.ms": wanted.session_timeout_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "auto.commit.interval.ms": COMMIT_MS,
            # A record is stored for the next commit once its line is written.
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "fetch.error.backoff.ms": 100,
            "on_commit": lambda error, partitions: _committed(lines, error, partitions),
        }
    )
    member, kept = "", Repeats()

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        nonlocal member
        member = consumer.memberid() or ""
        moved("assigned", partitions)

    def given_up(event: str, _: Consumer, partitions: list[TopicPartition]) -> None:
        moved(event, partitions)

    def moved(event: str, partitions: list[TopicPartition]) -> None:
        numbers = [each.partition for each in partitions]
        lines.owned(event, numbers, member)
        kept.rebalanced(numbers)

    def first_time(message: Message) -> bool:
        if message.error() is None and kept.repeats(*_place(message), message.value()):
            print("received again after a rebalance:", *_place(message), file=sys.stderr, flush=True)
            return False
        return True

    consumer.subscribe(
        [connection.topic],
        on_assign=assigned,
        on_revoke=partial(given_up, "revoked"),
        on_lost=partial(given_up, "lost"),
    )
    try:
        while not stopped():
            message = consumer.poll(POLL_S)
            if message is not None and first_time(message) and _received(message, lines):
                with suppress(KafkaException):  # the partition was given up meanwhile
                    consumer.store_offsets(message)
    finally:
        consumer.close()


def _committed(lines: HistoryLines, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
    """Writes the commits that a coordinator acknowledged."""
    for each in partitions:
        if error is None and each.error is None and each.offset >= 0:
            lines.commit_acked(each.partition, each.offset)


def _received(message: Message, lines: HistoryLines) -> tuple[int, int] | None:
    """Writes a record, and returns its partition and offset; None for an error that passes. Raises Failed."""
    error = message.error()
    if error is not None:
        if error.fatal():
            raise Failed(error)
        return None
    partition, offset = _place(message)
    lines.received(partition, offset, message.timestamp()[1], message.key(), message.value())
    return partition, offset


def _place(message: Message) -> tuple[int, int]:
    """Partition and offset of a message without an error."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None, "a message of the log has a place"
    return partition, offset


def _ask_for_watermarks(
    consumer: Consumer, connection: Connection, lines: HistoryLines, proven: Mapping[int, int]
) -> dict[int, int]:
    """Writes and returns the high watermarks that brokers answer with. No broker knows that of a partition
    without a leader."""
    ends: dict[int, int] = {}
    for number, known in proven.items():
        partition = TopicPartition(connection.topic, number)
        try:
            answer = consumer.get_watermark_offsets(partition, timeout=WATERMARK_S_MAX, cached=False)
        except KafkaException:
            continue
        if answer is not None:
            ends[number] = answer[1]
            lines.watermark(number, answer[1], known)
    return ends
