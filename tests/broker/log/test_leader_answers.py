"""A leader's answers to clients while it does not know the high watermark, or whether it still leads
(CORRECTNESS H1, E1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.adapters.zookeeper.znodes import TopicNode
from strandline.broker.core.replication.produce_ticket import ProduceOutcome
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.log.handlers import Handlers
from strandline.broker.log.producer_ids import ProducerIds
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.errors import (
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from strandline.ids import BrokerId, Offset, TopicPartition
from strandline.records import decode, encode_values
from strandline.vocabulary.log import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    EpochQuery,
    FetchPartition,
    MetadataQuery,
    OffsetQuery,
    ProduceEntry,
)
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.access import CALLER, OPEN
from tests.broker.support.replicas import ASSIGNED, CLOCK, KEY, NAME, batch, settings, write
from tests.broker.support.seat import Seat, led_by, seated

COMMITTED, WITHHELD = ("a", "b"), ("c",)
FIRST_MS, FUTURE_MS = 0, 1 << 42


@pytest.fixture
async def seat(tmp_path: Path) -> AsyncIterator[Seat]:
    """Broker 2 leads, and knows that two of its three records are committed; no broker follows it yet."""
    async with seated(tmp_path) as found:
        write(found.replica, 4, *COMMITTED, *WITHHELD)
        found.replica.raise_watermark(Offset(len(COMMITTED)))
        found.lead(5)
        yield found


@pytest.fixture
def handlers(seat: Seat) -> Handlers:
    return handlers_of(seat)


def handlers_of(seat: Seat) -> Handlers:
    view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
    return Handlers(
        seat.manager, view, settings(), CLOCK, lambda: True, ProducerIds(lambda: None, Random(0)), OPEN
    )


async def test_the_start_of_the_log_and_records_below_the_leaders_own_watermark_are_served(
    handlers: Handlers,
) -> None:
    """CORRECTNESS H1, H5: below min.insync.replicas the HW may stand still for days; what is known to be
    committed is read all the same, from EARLIEST, from a time, and by offset."""
    for asked in (EARLIEST, FIRST_MS):
        (listed,) = await handlers.list_offsets([OffsetQuery(NAME, asked)], CALLER)
        assert (listed.error, listed.offset, listed.high_watermark) == (None, 0, -1)
    (fetched,) = await handlers.reads.read([FetchPartition(NAME, 0, 5, 1 << 20)], 1 << 20, CALLER)
    found = [(record.value or b"").decode() for record in decode(fetched.records, from_offset=0)]
    assert (found, fetched.high_watermark) == ([*COMMITTED], -1)


async def test_what_stands_still_is_stable_only_below_the_first_open_transaction(tmp_path: Path) -> None:
    """CORRECTNESS C7, H1: clients get the watermark that is known here, and not as the last stable offset."""
    async with seated(tmp_path) as seat:
        seat.manager.reconfigure(
            seat.replica, PartitionAssignment(ASSIGNED), TopicConfig(min_insync_replicas=2)
        )
        write(seat.replica, 4, *COMMITTED, *WITHHELD)
        seat.replica.raise_watermark(Offset(len(COMMITTED)))
        seat.replica.log.producers.transactions.begun(7, 0, 1, now_ms=0)
        seat.lead_alone(5)
        read = handlers_of(seat).reads.read
        (fetched,) = await read([FetchPartition(NAME, 0, 5, 1 << 20, stable=True)], 1 << 20, CALLER)
        assert (fetched.high_watermark, fetched.standing_watermark, fetched.stable_offset) == (-1, 2, 1)
        assert [record.value for record in decode(fetched.records)] == [b"a"]


@pytest.mark.parametrize("asked", [LATEST, FUTURE_MS], ids=["latest", "a time that no known record has"])
async def test_requests_that_need_the_watermark_are_refused_until_it_is_known(
    seat: Seat, handlers: Handlers, asked: int
) -> None:
    """CORRECTNESS H1: the predecessor may have reported a larger end; no answer is ever a smaller one."""
    (listed,) = await handlers.list_offsets([OffsetQuery(NAME, asked)], CALLER)
    assert isinstance(listed.error, OffsetNotAvailable)
    (fetched,) = await handlers.reads.read([FetchPartition(NAME, 2, 5, 1 << 20)], 1 << 20, CALLER)
    assert (fetched.error, fetched.records, fetched.high_watermark) == (None, b"", -1)
    seat.commit(3)
    (listed,) = await handlers.list_offsets([OffsetQuery(NAME, asked)], CALLER)
    assert (listed.error, listed.offset, listed.high_watermark) == (None, 3 if asked == LATEST else -1, 3)


@pytest.mark.parametrize(
    ("times", "offset", "timestamp"), [((10, 30, 20, 30), 1, 30), ((10, 20, 30), 2, 30), ((), -1, -1)]
)
async def test_the_record_of_the_latest_time_is_found(
    tmp_path: Path, times: tuple[int, ...], offset: int, timestamp: int
) -> None:
    """The first of them, as Kafka since 3.7 finds it."""
    async with seated(tmp_path) as seat:
        log = seat.replica.log
        log.appending.begin_epoch(4)
        for time_ms in times:
            log.appending.as_leader(encode_values([b"x"], time_ms), 4, now_ms=CLOCK.wall_ms())
        seat.lead(5)
        (listed,) = await handlers_of(seat).list_offsets([OffsetQuery(NAME, MAX_TIMESTAMP)], CALLER)
        assert isinstance(listed.error, OffsetNotAvailable) == bool(times), "the last is not committed yet"
        seat.commit(len(times))
        (listed,) = await handlers_of(seat).list_offsets([OffsetQuery(NAME, MAX_TIMESTAMP)], CALLER)
    assert (listed.error, listed.offset, listed.timestamp_ms) == (None, offset, timestamp)


async def test_a_client_of_a_partition_that_others_have_looks_for_its_leader(
    seat: Seat, handlers: Handlers
) -> None:
    """After a reassignment a client may still ask the old broker. UNKNOWN_TOPIC_OR_PARTITION would say that
    the partition is gone, which some clients report as an error of the application."""
    there, gone = TopicPartition(NAME.topic, 1), TopicPartition(NAME.topic, 2)
    await seat.coordination.set(znodes.topic(NAME.topic), znodes.dump_topic(TopicNode(KEY.topic_id, 2, {})))
    for path, data in (
        (znodes.replicas(*there), znodes.dump_replicas((BrokerId(1),))),
        (znodes.isr(*there), isr_znodes.dump_isr(led_by(1, 1, epoch=5))),
    ):
        await seat.coordination.ensure_path(path)
        await seat.coordination.set(path, data)
    await handlers.metadata(MetadataQuery([NAME.topic]), CALLER)
    for name, kind in ((there, NotLeaderOrFollower), (gone, UnknownTopicOrPartition)):
        outcomes: list[ProduceOutcome] = []
        handlers.produce(ProduceEntry(name, batch("d"), acks=-1), outcomes.append, CALLER)
        (fetched,) = await handlers.reads.read([FetchPartition(name, 0, 5, 1 << 20)], 1 << 20, CALLER)
        (listed,) = await handlers.list_offsets([OffsetQuery(name, LATEST)], CALLER)
        (ended,) = await handlers.epoch_ends([EpochQuery(name, 5)], CALLER)
        found = [*outcomes, fetched.error, listed.error, ended.error]
        assert [type(each) for each in found] == [kind] * 4


async def test_a_leader_that_was_replaced_unnoticed_acknowledges_nothing_alone(
    seat: Seat, handlers: Handlers
) -> None:
    """CORRECTNESS E1: its session is in force and its followers are silent, so ZooKeeper knows the leader. It
    acknowledged 74 records with acks=1 after its successor had begun to lead; all of them were lost."""
    assert await handlers.standing.unsure([NAME]) == frozenset()
    seat.write(led_by(3, 3, epoch=6))
    assert await handlers.standing.unsure([NAME, TopicPartition("nowhere", 0)]) == {NAME}
    outcomes: list[ProduceOutcome] = []
    handlers.produce(ProduceEntry(NAME, batch("d"), acks=1), outcomes.append, CALLER, sure=False)
    assert [type(outcome) for outcome in outcomes] == [NotLeaderOrFollower]
    assert seat.replica.log.log_end_offset == 3


async def test_a_leader_that_was_replaced_unnoticed_tells_no_reader_that_records_are_gone(
    seat: Seat, handlers: Handlers
) -> None:
    """CORRECTNESS E1: its successor had committed 72 records, and it had 69. A member of a group that asked
    for offset 72 began anew at 0, and committed that."""
    seat.commit(3)
    ahead, last = FetchPartition(NAME, 4, 5, 1 << 20), EpochQuery(NAME, 4)
    (fetched,), (ended,) = (
        await handlers.reads.read([ahead], 1 << 20, CALLER),
        await handlers.epoch_ends([last], CALLER),
    )
    assert (type(fetched.error), ended.error) == (OffsetOutOfRange, None)
    seat.write(led_by(3, 3, epoch=6))
    (fetched,), (ended,) = (
        await handlers.reads.read([ahead], 1 << 20, CALLER),
        await handlers.epoch_ends([last], CALLER),
    )
    (without_room,) = await handlers.reads.without_records([ahead], CALLER)
    errors = [fetched.error, ended.error, without_room.error]
    assert [type(each) for each in errors] == [NotLeaderOrFollower] * 3
    assert handlers.reads.with_nothing_new([ahead]) is None
