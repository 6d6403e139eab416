"""A producer and a reader of confluent-kafka (librdkafka). Its calls block, and serve its callbacks."""

from __future__ import annotations

import itertools
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

from strandline.chaos.kafka.history_lines import HistoryLines, Stopped
from strandline.chaos.kafka.options import Produced, Reading, Target
from strandline.chaos.kafka.outcomes import outcome_of
from strandline.errors import Outcome
from strandline.ports import Clock

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


class Failed(Exception):
    """The client cannot continue."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.str())
        self.error = error


def produce(target: Target, wanted: Produced, lines: HistoryLines, clock: Clock, stopped: Stopped) -> None:
    """Sends numbered records until it is stopped, and waits for all answers. With acks=all it is idempotent.
    With acks=1 it never tries again, so that no record is stored twice.

    Raises KafkaException, Failed.
    """
    promised = wanted.acks == "all"
    settings = {
        **SETTINGS,
        "bootstrap.servers": target.bootstrap,
        "client.id": target.client_id,
        "acks": wanted.acks,
        "message.timeout.ms": wanted.delivery_timeout_ms,
        "max.in.flight.requests.per.connection": 5,
        **({"enable.idempotence": True} if promised else {"message.send.max.retries": 0}),
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
            producer.produce(target.topic, value, key, on_delivery=partial(delivered, record))
        except BufferError as error:
            lines.failed(record, KafkaError._QUEUE_FULL, "_QUEUE_FULL", Outcome.RETRIABLE, str(error))
        producer.poll(0)
        if fatal:
            break
    while producer.flush(FLUSH_S):
        pass
    if fatal:
        raise Failed(fatal[0])


def read(target: Target, wanted: Reading, lines: HistoryLines, clock: Clock, stopped: Stopped) -> None:
    """Reads all partitions that the topic has now, from their beginnings, until it is stopped.

    An offset that no broker has sends it back to the beginning, which the checks of its history find.
    Raises KafkaException, Failed.
    """
    consumer = Consumer(
        {
            **SETTINGS,
            "bootstrap.servers": target.bootstrap,
            "client.id": target.client_id,
            "group.id": f"{target.client_id}-has-no-group",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.error.backoff.ms": 100,
        }
    )
    try:
        described = consumer.list_topics(target.topic, METADATA_S_MAX).topics[target.topic]
        if described.error is not None:
            raise KafkaException(described.error)
        partitions = [TopicPartition(target.topic, number) for number in described.partitions]
        proven = dict.fromkeys(described.partitions, 0)
        consumer.assign(
            [TopicPartition(target.topic, number, OFFSET_BEGINNING) for number in described.partitions]
        )
        lines.assigned(list(described.partitions))
        due = clock.monotonic()
        while not stopped():
            message = consumer.poll(POLL_S)
            if message is not None:
                _received(message, lines, proven)
            if clock.monotonic() >= due:
                due = clock.monotonic() + wanted.watermarks_s
                _ask_for_watermarks(consumer, partitions, lines, proven)
    finally:
        consumer.close()


def _received(message: Message, lines: HistoryLines, proven: dict[int, int]) -> None:
    """Raises Failed for an error that does not pass."""
    error = message.error()
    if error is not None:
        if error.fatal():
            raise Failed(error)
        return
    partition, offset = _place(message)
    lines.received(partition, offset, message.timestamp()[1], message.key(), message.value())
    proven[partition] = max(proven.get(partition, 0), offset + 1)


def _place(message: Message) -> tuple[int, int]:
    """Partition and offset of a message without an error."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None, "a message of the log has a place"
    return partition, offset


def _ask_for_watermarks(
    consumer: Consumer, partitions: list[TopicPartition], lines: HistoryLines, proven: dict[int, int]
) -> None:
    """Writes the high watermarks that brokers answer with. No broker knows that of a partition without a
    leader."""
    for each in partitions:
        known = proven[each.partition]
        try:
            answer = consumer.get_watermark_offsets(each, timeout=WATERMARK_S_MAX, cached=False)
        except KafkaException:
            continue
        if answer is not None:
            lines.watermark(each.partition, answer[1], known)
