"""A coordinator of transactions over real logs: what was decided is in the log before it is said, markers
follow, and the next coordinator continues what one began (KIP-98)."""

from __future__ import annotations

import asyncio

import pytest

from strandline.broker.core.transactions.effects import EventKind, SendMarkers
from strandline.errors import ConcurrentTransactions, CoordinatorLoading, NotCoordinator
from strandline.ids import BrokerId
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import AddPartitions, InitTransactions, TransactionState
from tests.broker.groups.live import refusal
from tests.broker.support.replicas import LIVE, open_replica
from tests.broker.transactions.live import ALONE, NEW_ID, A, B, Live, live
from tests.waiting import eventually


def replicated(found: Live, end: int) -> None:
    """Broker 2 has the records below this offset."""
    leadership, follower = found.leader.leadership, LIVE[BrokerId(2)]
    leadership.fetched(follower.id, follower.epoch, end, subscription=1)
    leadership.turn()


async def test_a_transaction_goes_from_its_producer_to_its_partitions() -> None:
    async with live() as found:
        await found.serving()
        producer = await found.init()
        assert producer == ProducerIdentity(NEW_ID, 0)
        await found.begin(producer, A, B)
        following = await found.end(producer)
        assert following == ProducerIdentity(NEW_ID, 1)
        await eventually(lambda: bool(found.leaders.sent))
        ((markers, epoch),) = found.leaders.sent
        assert (markers.partitions, markers.commit, epoch) == (frozenset({A, B}), True, 5)
        assert await found.state() is TransactionState.PREPARE_COMMIT
        found.leaders.confirmed.set()
        await found.reaches(TransactionState.COMPLETE_COMMIT)
        kinds = [event.kind for event in found.events]
        assert kinds == [EventKind.BEGUN, EventKind.COMMITTING, EventKind.COMPLETED]


async def test_no_producer_hears_of_a_decision_before_it_is_committed_to_the_log() -> None:
    """Durable first, visible after: neither the answer nor a marker is ahead of the high watermark."""
    async with live(isr=(1, 2)) as found:
        await found.serving()
        log = found.leader.replica.log
        async with asyncio.TaskGroup() as tasks:
            beginning = tasks.create_task(found.init())
            await eventually(lambda: log.log_end_offset == 1)
            assert not beginning.done()
            replicated(found, 1)
        producer = beginning.result()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(found.begin(producer, A))
            await eventually(lambda: log.log_end_offset == 2)
            replicated(found, 2)
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(found.end(producer))
            await eventually(lambda: log.log_end_offset == 3)
            assert not ending.done()
            assert not found.leaders.sent
            replicated(found, 3)
        await eventually(lambda: bool(found.leaders.sent))


async def test_the_next_coordinator_sends_the_markers_that_may_not_have_arrived() -> None:
    """A crash between the decision and its markers: they come from the next leader, in its epoch."""
    replica = open_replica(ALONE)
    async with live(replica) as first:
        await first.serving()
        producer = await first.init()
        await first.begin(producer, A, B)
        following = await first.end(producer)
    assert first.leaders.ended == 1
    async with live(replica, epoch=6) as second:
        await second.serving()
        await eventually(lambda: bool(second.leaders.sent))
        ((markers, epoch),) = second.leaders.sent
        assert markers == SendMarkers("payments", following, True, frozenset({A, B}))
        assert epoch == 6
        again = await refusal(second.partition.ask(AddPartitions("payments", following, (A,))))
        assert isinstance(again, ConcurrentTransactions)
        second.leaders.confirmed.set()
        await second.reaches(TransactionState.COMPLETE_COMMIT)
        await second.begin(following, A)


async def test_markers_that_arrive_after_the_end_of_the_leadership_change_nothing() -> None:
    async with live() as found:
        await found.serving()
        producer = await found.init()
        await found.begin(producer, A)
        await found.end(producer)
        end = found.leader.replica.log.log_end_offset
        await eventually(lambda: bool(found.leaders.sent))
        found.leaders.confirmed.set()
        found.partition.end()
        await eventually(lambda: found.leaders.ended == 1)
        assert found.leader.replica.log.log_end_offset == end


async def test_no_producer_id_is_taken_for_a_request_that_is_not_answered_here() -> None:
    async with live() as found:
        asked = InitTransactions("payments", 60_000)
        with pytest.raises(CoordinatorLoading):
            found.partition.needs_producer_id(asked)
        await found.serving()
        assert found.partition.needs_producer_id(asked)
        await found.init()
        assert not found.partition.needs_producer_id(asked)
        found.partition.end()
        with pytest.raises(NotCoordinator):
            found.partition.needs_producer_id(asked)


async def test_a_timeout_aborts_and_its_markers_follow() -> None:
    """No transaction hangs because its producer died (KIP-98)."""
    async with live() as found:
        await found.serving()
        producer = await found.init(timeout_ms=1)
        await found.begin(producer, A)
        await eventually(lambda: bool(found.leaders.sent))
        assert not found.leaders.sent[0][0].commit
        found.leaders.confirmed.set()
        await found.reaches(TransactionState.COMPLETE_ABORT)
