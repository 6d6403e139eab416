"""Clients of aiokafka."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from strandline.errors import ErrorCode
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

POLL_MS: Final = 250
BEHIND_S_MAX: Final = 0.1
WATERMARK_S_MAX: Final = 1.0
STOP_S_MAX: Final = 20.0
REQUEST_TIMEOUT_MS: Final = 10_000
METADATA_MAX_AGE_MS: Final = 5_000
"""Shorter than the defaults, since a round is."""


async def produce(
    connection: Connection, wanted: Produced, lines: HistoryLines, clock: Clock, stopped: Stopped
) -> None:
    """Sends numbered records until it is stopped, and waits for all answers. It is idempotent, and waits for
    all in-sync replicas. Raises KafkaError."""
    assert wanted.acks == "all", "an idempotent producer waits for all in-sync replicas"
    producer = AIOKafkaProducer(
        **connection.for_aiokafka,
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
                answer = await producer.send(connection.topic, value, key)
            except KafkaError as error:
                failed(record, error)
            else:
                answer.add_done_callback(partial(ended, record))


async def read(
    connection: Connection, wanted: Reading, lines: HistoryLines, clock: Clock, stopped: Stopped
) -> None:
    """Reads all partitions that the topic has now, from their beginnings, until it is stopped. Then it reads
    on to their ends: a reader that does not get there does not end.

    An offset that no broker has sends it back to the beginning, which the checks of its history find.
    Raises KafkaError.
    """
    partitions = await _partitions(connection)
    consumer = AIOKafkaConsumer(
        **connection.for_aiokafka,
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

        async def read_some() -> None:
            for name, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
                for each in records:
                    lines.received(each.partition, each.offset, each.timestamp, each.key, each.value)
                    proven[name] = max(proven[name], each.offset + 1)

        due = clock.monotonic()
        while not stopped():
            await read_some()
            if clock.monotonic() >= due:
                due = clock.monotonic() + wanted.watermarks_s
                await _ask_for_watermarks(consumer, lines, proven)
        while not all_received(proven, await _ask_for_watermarks(consumer, lines, proven)):
            await read_some()


class _Reported(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka ships no types
    """Writes the changes of a member's partitions."""

    def __init__(self, consumer: AIOKafkaConsumer, lines: HistoryLines) -> None:
        self._consumer = consumer
        self._lines = lines
        self._member = ""
        self._owned: set[int] = set()

    @property
    def _member_now(self) -> str:
        """The id that the coordinator knows; empty once it has removed the member. aiokafka shows it in no
        other place."""
        return str(self._consumer._coordinator.member_id)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._member, self._owned = self._member_now, {each.partition for each in assigned}
        self._lines.owned("assigned", list(self._owned), self._member)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """aiokafka calls this also for partitions that were taken from a member that was removed."""
        self.gives_up("revoked" if self._member_now == self._member else "lost")

    def gives_up(self, event: str) -> None:
        if self._owned:
            self._lines.owned(event, list(self._owned), self._member)
            self._owned = set()


async def join(connection: Connection, wanted: Membership, lines: HistoryLines, stopped: Stopped) -> None:
    """Reads its share of the topic as a member of a group, and leaves the group once it is stopped.

    Raises KafkaError.
    """
    assert wanted.assignor == RangePartitionAssignor.name, "the only one that all libraries have"
    consumer = AIOKafkaConsumer(
        **connection.for_aiokafka,
        group_id=wanted.group,
        partition_assignment_strategy=(RangePartitionAssignor,),
        session_timeout_ms=wanted.session_timeout_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_commit_interval_ms=COMMIT_MS,
        auto_offset_reset="earliest",
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        metadata_max_age_ms=METADATA_MAX_AGE_MS,
    )
    async with _started(consumer):
        reported = _Reported(consumer, lines)
        consumer.subscribe([connection.topic], listener=reported)
        while not stopped():
            for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                for each in records:
                    lines.received(each.partition, each.offset, each.timestamp, each.key, each.value)
        # What follows commits and leaves, and calls no listener.
        reported.gives_up("revoked")


@asynccontextmanager
async def _started(consumer: AIOKafkaConsumer) -> AsyncIterator[None]:
    """Stops the consumer afterwards. aiokafka 0.14 sends its last commit again without end if it has lost its
    coordinator when it stops, since it looks for no other one then."""
    await consumer.start()
    try:
        yield
    finally:
        try:
            async with asyncio.timeout(STOP_S_MAX):
                await consumer.stop()
        except TimeoutError:
            print(f"aiokafka did not stop within {STOP_S_MAX:.0f} s", file=sys.stderr)


async def _partitions(connection: Connection) -> Sequence[TopicPartition]:
    """The partitions that the topic has now."""
    admin = AIOKafkaAdminClient(**connection.for_aiokafka)
    await admin.start()
    try:
        (topic,) = await admin.describe_topics([connection.topic])
    finally:
        await admin.close()
    return sorted(TopicPartition(connection.topic, each["partition"]) for each in topic["partitions"])


async def _ask_for_watermarks(
    consumer: AIOKafkaConsumer, lines: HistoryLines, proven: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int]:
    """Writes and returns the high watermarks that brokers answer with. No broker knows that of a partition
    without a leader."""
    try:
        async with asyncio.timeout(WATERMARK_S_MAX):
            ends: dict[TopicPartition, int] = await consumer.end_offsets(list(proven))
    except (KafkaError, TimeoutError):
        return {}
    for name, offset in sorted(ends.items()):
        lines.watermark(name.partition, offset, proven[name])
    return ends


def code_of(error: BaseException) -> int:
    """Kafka's number of an error; aiokafka's own errors have none."""
    found = getattr(error, "errno", None)
    return found if isinstance(found, int) else int(ErrorCode.UNKNOWN_SERVER_ERROR)
