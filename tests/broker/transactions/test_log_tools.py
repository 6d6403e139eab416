"""Tools see what is open in a log, and end it there (KIP-664)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.kafka.answers import AnswerSize
from strandline.broker.kafka.handlers.replicas import ReplicasApi
from strandline.broker.kafka.handlers.transactions.markers import MarkersApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.replicas import ActiveProducer, DescribeProducersRequest
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.broker.kafka.wire.transactions.markers import (
    MarkedPartition,
    MarkerToWrite,
    WriteMarkersRequest,
    WrittenMarkers,
)
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.series.transactions import is_late
from strandline.broker.transactions.log_markers import LogMarkers
from strandline.broker.transactions.log_tools import LogTools
from strandline.broker.transactions.marker_writes import MarkerWrites
from strandline.config.limits import MARKERS_PER_CALL_MAX, OPEN_IN_LOG_SHOWN_MAX
from strandline.errors import (
    ErrorCode,
    InvalidRequest,
    InvalidTransactionState,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from strandline.ids import TopicPartition
from strandline.records import pack
from strandline.records.header import TRANSACTIONAL
from strandline.vocabulary.log import NO_MARKER, ProducerIdentity, Transactional
from strandline.vocabulary.topic_config import TopicConfig
from strandline.vocabulary.transactions import AbortInLog, LogQuery, Marker, MarkerEntry, OpenInLog
from tests.broker.kafka.support.asking import called, log_handlers
from tests.broker.support.access import CALLER, OPEN
from tests.broker.support.replicas import ASSIGNED, CLOCK, NAME
from tests.broker.support.seat import Seat, seated
from tests.waiting import eventually

ELSEWHERE = TopicPartition(NAME.topic, 7)
WRITE = called(apis.WRITE_TXN_MARKERS, 2)


@dataclass
class Here:
    """Broker 2, which leads one partition in sync with itself."""

    seat: Seat
    leadership: Leadership
    tools: LogTools
    marked: list[Marker]

    def begin(self, producer_id: int, epoch: int = 0, sequence: int = 0) -> int:
        """A transaction that no coordinator knows; the offset of its first record."""
        packed = replace(pack([(None, b"value", (), CLOCK.wall_ms())]), attributes=TRANSACTIONAL)
        batch = packed.seal(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        producers = self.seat.replica.log.producers
        right = Transactional(ProducerIdentity(producer_id, epoch), producers.guard(producer_id))
        offset = self.seat.replica.log.log_end_offset
        self.leadership.produce(
            batch, acks=-1, timeout_ms=1_000, done=lambda outcome: None, transaction=right
        )
        return int(offset)

    async def committed(self) -> None:
        log = self.seat.replica.log
        await eventually(lambda: self.seat.replica.high_watermark == log.log_end_offset)

    async def opened(self) -> list[int]:
        """Where open transactions begin."""
        (found,) = await self.tools.describe([LogQuery(NAME)], CALLER)
        assert found.error is None
        return [each.first_offset for each in found.opened]


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    async with seated(tmp_path) as seat:
        alone = TopicConfig(min_insync_replicas=1)
        seat.manager.reconfigure(seat.replica, PartitionAssignment(ASSIGNED), alone)
        leadership = seat.lead_alone(6)
        marked: list[Marker] = []
        replica = log_handlers(seat).replica
        markers = LogMarkers(replica, lambda _, marker: marked.append(marker))
        tools = LogTools(seat.manager, replica, MarkerWrites(markers, OPEN, CLOCK), OPEN)
        yield Here(seat, leadership, tools, marked)


async def test_open_transactions_are_described_in_the_order_of_their_offsets(here: Here) -> None:
    first, second = here.begin(5), here.begin(6, epoch=3)
    await here.committed()
    (found, elsewhere) = await here.tools.describe([LogQuery(NAME), LogQuery(ELSEWHERE)], CALLER)
    assert isinstance(elsewhere.error, UnknownTopicOrPartition)
    assert (found.stable_offset, found.high_watermark, found.count) == (0, 2, 2)
    began = found.opened[0].began_ms
    assert began > 0
    assert list(found.opened) == [
        OpenInLog(ProducerIdentity(5, 0), first, began),
        OpenInLog(ProducerIdentity(6, 3), second, found.opened[1].began_ms),
    ]


async def test_one_answer_has_the_oldest_and_the_number_of_all(here: Here) -> None:
    """CONTRIBUTING 7"""
    for number in range(OPEN_IN_LOG_SHOWN_MAX + 5):
        here.begin(number)
    (found,) = await here.tools.describe([LogQuery(NAME)], CALLER)
    assert found.count == OPEN_IN_LOG_SHOWN_MAX + 5
    assert [each.first_offset for each in found.opened] == list(range(OPEN_IN_LOG_SHOWN_MAX))


async def test_an_abort_ends_the_transaction_that_begins_there(here: Here) -> None:
    kept, ended = here.begin(5), here.begin(6, epoch=3)
    await here.tools.abort(AbortInLog(NAME, ended), CALLER)
    assert await here.opened() == [kept]
    (aborted,) = here.seat.replica.log.producers.transactions.aborted(0, 10)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (6, ended, ended + 1)
    assert not here.marked  # only of markers in `__consumer_offsets` do groups hear
    with pytest.raises(InvalidTransactionState, match="begins at offset 1"):
        await here.tools.abort(AbortInLog(NAME, ended), CALLER)
    with pytest.raises(UnknownTopicOrPartition):
        await here.tools.abort(AbortInLog(ELSEWHERE, 0), CALLER)


async def test_an_abort_is_taken_after_a_marker_of_a_later_coordinator(here: Here) -> None:
    here.begin(5)
    marker = Marker(ProducerIdentity(5, 4), commit=True, coordinator_epoch=9)
    assert await here.tools.write_markers([MarkerEntry(NAME, marker)], CALLER) == [None]
    hanging = here.begin(5, epoch=4)
    await here.tools.abort(AbortInLog(NAME, hanging), CALLER)
    assert await here.opened() == []


async def test_a_broker_that_does_not_lead_names_no_transactions(here: Here) -> None:
    hanging = here.begin(5)
    here.leadership.step_down(None)
    (found,) = await here.tools.describe([LogQuery(NAME)], CALLER)
    assert isinstance(found.error, NotLeaderOrFollower)
    with pytest.raises(NotLeaderOrFollower):
        await here.tools.abort(AbortInLog(NAME, hanging), CALLER)


async def test_markers_of_a_kafka_tool_are_written_each_by_itself(here: Here) -> None:
    here.begin(5)
    api = MarkersApi(here.tools)
    asked = (
        MarkerToWrite(5, 0, False, (OfTopic(NAME.topic, (0, 7)),), 0),
        MarkerToWrite(5, -1, False, (OfTopic(NAME.topic, (0,)),), 0),
    )
    unknown, stale = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await api.write(WriteMarkersRequest(asked), WRITE)).markers == (
        WrittenMarkers(5, (OfTopic(NAME.topic, (MarkedPartition(0), MarkedPartition(7, unknown))),)),
        WrittenMarkers(5, (OfTopic(NAME.topic, (MarkedPartition(0, stale),)),)),
    )
    assert await here.opened() == []


async def test_one_request_has_a_bounded_number_of_markers(here: Here) -> None:
    """CONTRIBUTING 7"""
    marker = Marker(ProducerIdentity(5, 0), commit=False, coordinator_epoch=0)
    with pytest.raises(InvalidRequest):
        await here.tools.write_markers([MarkerEntry(NAME, marker)] * (MARKERS_PER_CALL_MAX + 1), CALLER)


async def test_a_kafka_tool_sees_where_transactions_began(here: Here) -> None:
    """Also of a producer that has no batch since a marker raised its epoch."""
    here.begin(5)
    opened = here.begin(6)
    marker = Marker(ProducerIdentity(5, 1), commit=False, coordinator_epoch=9)
    await here.tools.write_markers([MarkerEntry(NAME, marker)], CALLER)
    producers = await described(here)
    assert {each.producer_id: each.last_at_ms > 0 for each in producers} == {5: True, 6: True}
    assert [each._replace(last_at_ms=0) for each in producers] == [
        ActiveProducer(6, 0, 0, 0, -1, opened),
        ActiveProducer(5, 1, -1, 0, 9, -1),
    ]


async def test_a_transaction_of_a_forgotten_producer_is_seen(here: Here) -> None:
    state = here.seat.replica.log.producers
    opened = here.begin(5)
    state._forget(5)
    (found,) = await described(here)
    assert found == ActiveProducer(5, 0, -1, found.last_at_ms, -1, opened)
    assert state.guard(5) == NO_MARKER
    await here.tools.abort(AbortInLog(NAME, opened), CALLER)
    assert await here.opened() == []


async def described(here: Here) -> tuple[ActiveProducer, ...]:
    api = ReplicasApi(log_handlers(here.seat), here.seat.manager)
    request = DescribeProducersRequest((OfTopic(NAME.topic, (0,)),))
    call: Any = called(apis.DESCRIBE_PRODUCERS, 0)
    (topic,) = (await api.producers(request, call, AnswerSize(CLOCK))).topics
    (partition,) = topic.partitions
    return partition.producers


async def test_a_transaction_is_late_five_minutes_after_the_longest_timeout(here: Here) -> None:
    """PartitionsWithLateTransactionsCount of ReplicaManager (KIP-664)."""
    replica, timeout_ms = here.seat.replica, 60_000
    assert not is_late(replica, 2**50, timeout_ms)
    here.begin(5)
    here.begin(6)
    first = replica.log.producers.transactions.first
    assert first is not None
    due_ms = first.began_ms + timeout_ms + 300_000
    assert not is_late(replica, due_ms, timeout_ms)
    assert is_late(replica, due_ms + 1, timeout_ms)
