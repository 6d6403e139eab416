"""Records are deleted below exactly the offset that a client names, on every in-sync replica."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from strandline.broker.log.handlers import Handlers
from strandline.broker.log.producer_ids import ProducerIds
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.replica import Replica
from strandline.broker.replication.leader_end import FollowerStream
from strandline.broker.replication.throttle import CopyThrottle
from strandline.errors import (
    InvalidRequest,
    InvalidTopic,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    RequestTimedOut,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionKey, TopicPartition
from strandline.records import decode
from strandline.vocabulary.log import EARLIEST, LATEST, DeletedRecords, FetchPartition, OffsetQuery
from strandline.vocabulary.replication import Hello
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.access import CALLER, OPEN
from tests.broker.support.replicas import CLOCK, NAME, batch, following, open_replica, settings, subscribe
from tests.broker.support.seat import ME, Seat, led_by, seated
from tests.waiting import eventually

EPOCH, END = 5, 9


@dataclass
class Leading:
    """Broker 2 leads a log of three batches of three records; the test says which brokers follow it."""

    seat: Seat
    handlers: Handlers

    @property
    def replica(self) -> Replica:
        return self.seat.replica

    def _find(self, _key: PartitionKey, _topic: str) -> Replica:
        return self.replica

    def link(self, follower: int, **given: Any) -> FollowerStream:
        hello = Hello(BrokerId(follower), BrokerEpoch(follower * 10), ME, "cluster")
        wanted = settings(**given)
        return FollowerStream(hello, self._find, CopyThrottle(wanted, CLOCK), wanted, CLOCK)

    async def delete(self, offset: int, *, timeout_ms: int = 10_000) -> DeletedRecords:
        return await self.handlers.delete_records(NAME, offset, CALLER, timeout_ms=timeout_ms)


@pytest.fixture
async def leading(tmp_path: Path) -> AsyncIterator[Leading]:
    async with seated(tmp_path) as seat:
        log = seat.replica.log
        log.appending.begin_epoch(4)
        for first in range(0, END, 3):
            values = [str(offset) for offset in range(first, first + 3)]
            log.appending.as_leader(batch(*values), 4, now_ms=CLOCK.wall_ms())
        seat.lead(EPOCH)
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        ids = ProducerIds(lambda: None, Random(0))
        yield Leading(seat, Handlers(seat.manager, view, settings(), CLOCK, lambda: True, ids, OPEN))


@pytest.fixture
async def followers(leading: Leading) -> AsyncIterator[list[Replica]]:
    """Brokers 1 and 3 have everything, and follow."""
    async with AsyncExitStack() as stack:
        found = []
        for broker in (1, 3):
            replica = open_replica()
            link: Any = leading
            await stack.enter_async_context(following(replica, EPOCH, leader=link, broker=broker))
            found.append(replica)
        await eventually(lambda: leading.replica.high_watermark == END)
        yield found


@pytest.mark.parametrize(("asked", "start"), [(4, 4), (3, 3), (LATEST, END), (END, END), (0, 0)])
async def test_the_log_starts_at_exactly_that_offset_on_all_replicas_in_sync(
    leading: Leading, followers: list[Replica], asked: int, start: int
) -> None:
    """CORRECTNESS H9: when it is answered, each replica that may lead next has deleted them. A fetch within
    the batch has the batch, one below the offset has an error."""
    assert await leading.delete(asked) == DeletedRecords(NAME, None, start)
    assert [replica.log.log_start_offset for replica in followers] == [start, start]
    handlers = leading.handlers
    (earliest,) = await handlers.list_offsets([OffsetQuery(NAME, EARLIEST)], CALLER)
    assert earliest.offset == start
    wanted = [FetchPartition(NAME, at, EPOCH, 1 << 20) for at in (start, start - 1)]
    fetched, below = await handlers.reads.read(wanted, 1 << 20, CALLER)
    assert (fetched.error, fetched.log_start_offset) == (None, start)
    found = [record.offset for record in decode(fetched.records, from_offset=start)]
    assert found == list(range(start, END))
    assert isinstance(below.error, OffsetOutOfRange)


async def test_a_deletion_below_the_start_changes_nothing_and_says_where_the_log_starts(
    leading: Leading, followers: list[Replica]
) -> None:
    """KIP-107: the answer is the low watermark."""
    await leading.delete(5)
    assert await leading.delete(2) == DeletedRecords(NAME, None, 5)
    assert leading.replica.log.log_start_offset == 5


async def test_a_fetch_that_waits_below_the_deleted_offset_ends(
    leading: Leading, followers: list[Replica]
) -> None:
    """CORRECTNESS H9: its position is wrong now, however little would still come."""
    wanted = [FetchPartition(NAME, 4, EPOCH, 1 << 20)]
    waiting = leading.handlers.reads.fetchable(
        leading.handlers.reads.fixed(wanted), CALLER, wait_ms=60_000, bytes_min=1 << 19, bytes_max=1 << 20
    )
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        tasks.create_task(waiting)
        await asyncio.sleep(0)
        await leading.delete(6)


async def test_a_deletion_that_a_replica_in_sync_does_not_confirm_has_no_outcome_yet(
    leading: Leading,
) -> None:
    """CORRECTNESS H9: it could lead next, and show the records again."""
    leading.replica.raise_watermark(Offset(END))
    outcome = await leading.delete(4, timeout_ms=1)
    assert isinstance(outcome.error, RequestTimedOut)
    assert leading.replica.log.log_start_offset == 4


# --- a replica that is not in sync yet ------------------------------------------------------------


def lead_without_broker_3(leading: Leading) -> Leadership:
    """Brokers 1 and 2 are in sync; 3 joins once ZooKeeper can be written."""
    seat = leading.seat
    state = led_by(ME, 1, 2, epoch=EPOCH + 1)
    seat.manager.lead(leading.replica, state, seat.write(state))
    leadership = leading.replica.led()
    leadership.link_changed(connected=False)
    return leadership


async def acknowledge_all(link: FollowerStream) -> None:
    while True:
        link.acknowledge((await link.next_message())[0])


async def test_a_replica_that_catches_up_deletes_the_records_too(leading: Leading) -> None:
    """CORRECTNESS H9: it has every record, so no push would come; it joins after the answer."""
    lead_without_broker_3(leading)
    link: Any = leading
    one, three = open_replica(), open_replica()
    async with (
        following(one, EPOCH + 1, leader=link, broker=1),
        following(three, EPOCH + 1, leader=link, broker=3),
    ):
        await eventually(lambda: three.high_watermark == END)
        assert (await leading.delete(4)).log_start_offset == 4
        await eventually(lambda: three.log.log_start_offset == 4)


async def test_a_deletion_waits_for_a_replica_that_joins_meanwhile(leading: Leading) -> None:
    """CORRECTNESS H9: it could lead next, and had not confirmed the deletion."""
    leadership = lead_without_broker_3(leading)
    links = {broker: leading.link(broker) for broker in (1, 3)}
    for link in links.values():
        link.subscribe(subscribe(EPOCH + 1, END, 4))
        link.acknowledge((await link.next_message())[0])
    assert leading.replica.high_watermark == END
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        deletion = tasks.create_task(leading.delete(4))
        asked = {broker: (await link.next_message())[0] for broker, link in links.items()}
        leadership.link_changed(connected=True)
        assert BrokerId(3) in leadership.core.isr.maximal()
        links[1].acknowledge(asked[1])
        for _ in range(100):
            await asyncio.sleep(0)
        assert not deletion.done()
        links[3].acknowledge(asked[3])
        playing = [tasks.create_task(acknowledge_all(link)) for link in links.values()]
        assert await deletion == DeletedRecords(NAME, None, 4)
        for each in playing:
            each.cancel()


async def test_a_deletion_of_records_that_are_not_committed_yet_waits_for_that(
    leading: Leading, followers: list[Replica]
) -> None:
    """CORRECTNESS H9: a producer with acks=1 knows their offsets already."""
    leading.replica.led().produce(batch("9", "10"), acks=1, timeout_ms=1_000, done=lambda _: None)
    assert leading.replica.high_watermark == END
    assert await leading.delete(END + 1) == DeletedRecords(NAME, None, END + 1)


async def test_records_that_are_not_committed_in_time_are_not_deleted(leading: Leading) -> None:
    """CORRECTNESS H9: its followers have what was there when it was elected, and fetch no more."""
    for link in (leading.link(1), leading.link(3)):
        link.subscribe(subscribe(EPOCH, END, 4))
        link.acknowledge((await link.next_message())[0])
    leading.replica.led().produce(batch("9", "10"), acks=1, timeout_ms=1_000, done=lambda _: None)
    outcome = await leading.delete(END + 1, timeout_ms=1)
    assert isinstance(outcome.error, OffsetOutOfRange) and outcome.error.limit == END


@pytest.mark.parametrize(
    ("offset", "error"),
    [(END + 1, OffsetOutOfRange), (-2, OffsetOutOfRange), (1 << 62, OffsetOutOfRange)],
)
async def test_offsets_that_are_not_committed_are_refused(
    leading: Leading, followers: list[Replica], offset: int, error: type[StrandlineError]
) -> None:
    """CORRECTNESS H9: nothing at or above the HW is deleted."""
    outcome = await leading.delete(offset)
    assert isinstance(outcome.error, error) and outcome.error.limit == END
    assert leading.replica.log.log_start_offset == 0


async def test_without_a_watermark_only_what_is_known_to_be_committed_is_deleted(leading: Leading) -> None:
    """CORRECTNESS H1: the predecessor may have reported a higher one."""
    leading.replica.raise_watermark(Offset(4))
    for offset in (LATEST, 5):
        assert isinstance((await leading.delete(offset)).error, OffsetNotAvailable)
    assert leading.replica.log.log_start_offset == 0


async def test_only_the_leader_deletes_and_only_records_that_are_deleted_by_age_elsewhere(
    leading: Leading, followers: list[Replica]
) -> None:
    """CORRECTNESS X3, H9: neither of the system's topics, nor of a topic that is only compacted."""
    for topic, error in (("__consumer_offsets", InvalidTopic), ("nowhere", UnknownTopicOrPartition)):
        outcome = await leading.handlers.delete_records(TopicPartition(topic, 0), 1, CALLER, timeout_ms=1_000)
        assert isinstance(outcome.error, error)
    leading.replica.config = TopicConfig(cleanup_policy="compact")
    assert isinstance((await leading.delete(1)).error, InvalidRequest)
    leading.replica.config = TopicConfig()
    seat = leading.seat
    seat.manager.follow(seat.replica, BrokerId(3), LeaderEpoch(EPOCH + 1))
    assert isinstance((await leading.delete(1)).error, NotLeaderOrFollower)
    assert seat.replica.log.log_start_offset == 0
