"""A producer and a reader of aiokafka."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from strandline.chaos.kafka.history_lines import HistoryLines, Stopped
from strandline.chaos.kafka.options import Produced, Reading, Target
from strandline.chaos.kafka.outcomes import outcome_of
from strandline.errors import ErrorCode
from strandline.ports import Clock

POLL_MS: Final = 250
BEHIND_S_MAX: Final = 0.1
WATERMARK_S_MAX: Final = 1.0
REQUEST_TIMEOUT_MS: Final = 10_000
METADATA_MAX_AGE_MS: Final = 5_000
"""Shorter than the defaults, since a round is."""


async def produce(
    target: Target, wanted: Produced, lines: HistoryLines, clock: Clock, stopped: Stopped
) -> None:
    """Sends numbered records until it is stopped, and waits for all answers. It is idempotent, and waits for
    all in-sync replicas. Raises KafkaError."""
    assert wanted.acks == "all", "an idempotent producer waits for all in-sync replicas"
    producer = AIOKafkaProducer(
        bootstrap_servers=target.bootstrap,
        client_id=target.client_id,
        acks="all",
        enable_idempotence=True,
        # Of one request, and of a batch's life: aiokafka has one setting for both.
        request_timeout_ms=wanted.delivery_timeout_ms,
        metadata_max_age_ms=METADATA_MAX_AGE_MS,
    )

    def ended(record: int, answer: asyncio.Future[Any]) -> None:
        error = answer.exception()
        if error is None:
            metadata = answer.result()
            lines.acked(record, metadata.partition, metadata.offset)
        else:
            failed(record, error)

    def failed(record: int, error: BaseException) -> None:
        code = code_of(error)
        lines.failed(record, code, type(error).__name__, outcome_of(code, retries=True), str(error))

    async with producer:
        due = clock.monotonic()
        for record in itertools.count():
            await clock.sleep(max(0.0, due - clock.monotonic()))
            if stopped():
                break
            due = max(due + 1 / wanted.rate, clock.monotonic() - BEHIND_S_MAX)
            key, value = wanted.record(record)
            lines.sent(record, key, value)
            try:
                answer = await producer.send(target.topic, value, key)
            except KafkaError as error:
                failed(record, error)
            else:
                answer.add_done_callback(partial(ended, record))


async def read(target: Target, wanted: Reading, lines: HistoryLines, clock: Clock, stopped: Stopped) -> None:
    """Reads all partitions that the topic has now, from their beginnings, until it is stopped.

    An offset that no broker has sends it back to the beginning, which the checks of its history find.
    Raises KafkaError.
    """
    partitions = await _partitions(target)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=target.bootstrap,
        client_id=target.client_id,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        metadata_max_age_ms=METADATA_MAX_AGE_MS,
    )
    async with consumer:
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        lines.assigned([each.partition for each in partitions])
        proven = dict.fromkeys(partitions, 0)
        due = clock.monotonic()
        while not stopped():
            for name, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
                for each in records:
                    lines.received(each.partition, each.offset, each.timestamp, each.key, each.value)
                    proven[name] = max(proven[name], each.offset + 1)
            if clock.monotonic() >= due:
                due = clock.monotonic() + wanted.watermarks_s
                await _ask_for_watermarks(consumer, partitions, lines, dict(proven))


async def _partitions(target: Target) -> Sequence[TopicPartition]:
    """The partitions that the topic has now."""
    admin = AIOKafkaAdminClient(bootstrap_servers=target.bootstrap, client_id=target.client_id)
    await admin.start()
    try:
        (topic,) = await admin.describe_topics([target.topic])
    finally:
        await admin.close()
    return sorted(TopicPartition(target.topic, each["partition"]) for each in topic["partitions"])


async def _ask_for_watermarks(
    consumer: AIOKafkaConsumer,
    partitions: Sequence[TopicPartition],
    lines: HistoryLines,
    proven: dict[TopicPartition, int],
) -> None:
    """Writes the high watermarks that brokers answer with. No broker knows that of a partition without a
    leader."""
    try:
        async with asyncio.timeout(WATERMARK_S_MAX):
            ends = await consumer.end_offsets(partitions)
    except (KafkaError, TimeoutError):
        return
    for name, offset in sorted(ends.items()):
        lines.watermark(name.partition, offset, proven[name])


def code_of(error: BaseException) -> int:
    """Kafka's number of an error; aiokafka's own errors have none."""
    found = getattr(error, "errno", None)
    return found if isinstance(found, int) else int(ErrorCode.UNKNOWN_SERVER_ERROR)
