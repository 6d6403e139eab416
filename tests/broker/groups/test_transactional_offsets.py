"""Offsets in transactions over real logs: written in batches of their own, loaded with their markers."""

from __future__ import annotations

import asyncio

import pytest

from strandline.broker.core.groups.requests import Commit
from strandline.broker.core.replication.produce_ticket import Produced, ProduceOutcome
from strandline.broker.replicas.replica import Replica
from strandline.errors import InvalidTransactionState, UnstableOffsetCommit
from strandline.ids import OFFSETS_TOPIC, BrokerId, Offset, TopicPartition
from strandline.records import BatchHeader, split
from strandline.vocabulary.groups import CommittedOffset, OffsetCommit, OffsetFetch
from strandline.vocabulary.log import NO_MARKER, ProducerIdentity, Transactional
from strandline.vocabulary.transactions import Marker
from tests.broker.groups.live import ALONE, ORDERS, Live, live, refusal
from tests.broker.support.replicas import LIVE, open_replica
from tests.waiting import eventually

PRODUCER = ProducerIdentity(7, 0)
MARKER_MS = 1_000
PLACE = TopicPartition(OFFSETS_TOPIC, 0)


def offsets_replica() -> Replica:
    return open_replica(ALONE, name=PLACE)


async def commit_in(found: Live, offset: int, producer: ProducerIdentity = PRODUCER) -> None:
    """A commit of this producer's transaction. Raises what it is refused with."""
    transaction = Transactional(producer, found.partition.guard(producer.producer_id))
    await commit_as(found, offset, transaction)


async def commit_as(found: Live, offset: int, transaction: Transactional) -> None:
    request = OffsetCommit("g", "", -1, {ORDERS: CommittedOffset(offset)})
    results = await found.partition.ask(Commit(request, transaction=transaction))
    if (error := results[ORDERS]) is not None:
        raise error


async def end(found: Live, *, commit: bool, producer: ProducerIdentity = PRODUCER) -> None:
    """The marker, as a leader writes it for a coordinator."""
    marker = Marker(producer, commit, coordinator_epoch=0)
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(outcome: ProduceOutcome) -> None:
        assert isinstance(outcome, Produced), outcome
        found.partition.marked(producer.producer_id, commit=commit)
        asyncio.get_running_loop().call_soon(ended.set_result, None)

    found.leader.leadership.produce_marker(marker, timeout_ms=MARKER_MS, done=done)
    await ended


async def stable(found: Live, name: TopicPartition = ORDERS) -> int | type[UnstableOffsetCommit] | None:
    """What a reader of stable offsets gets."""
    fetched = await found.partition.ask(OffsetFetch("g", (name,), require_stable=True))
    if name in fetched.unstable:
        return UnstableOffsetCommit
    committed = fetched[name]
    return None if committed is None else committed.offset


def batches(found: Live) -> list[BatchHeader]:
    log = found.leader.replica.log
    return split(log.read(log.log_start_offset, 1 << 20, below=log.log_end_offset))


@pytest.mark.parametrize("commit", [True, False])
async def test_the_next_coordinator_has_what_the_log_says_at_each_step(commit: bool) -> None:
    """CORRECTNESS G22, G23"""
    replica = offsets_replica()
    async with live(replica, epoch=5) as first:
        await eventually(lambda: first.partition.active)
        await first.commit("g", 1)
        await commit_in(first, 5)
        assert (await first.committed("g"), await stable(first)) == (1, UnstableOffsetCommit)
    async with live(replica, epoch=6) as second:
        await eventually(lambda: second.partition.active)
        assert (await second.committed("g"), await stable(second)) == (1, UnstableOffsetCommit)
        await end(second, commit=commit)
        wanted = 5 if commit else 1
        assert (await second.committed("g"), await stable(second)) == (wanted, wanted)
    async with live(replica, epoch=7) as third:
        await eventually(lambda: third.partition.active)
        assert (await third.committed("g"), await stable(third)) == (wanted, wanted)
        await commit_in(third, 9)
        await third.commit("g", 7)
        await end(third, commit=True)
        assert await stable(third) == 7
    async with live(replica, epoch=8) as fourth:
        await eventually(lambda: fourth.partition.active)
        assert await stable(fourth) == 7


async def test_a_marker_that_comes_while_the_log_is_read_ends_the_transaction() -> None:
    """It stands after all that is read. What the producer writes later is another transaction."""
    replica = offsets_replica()
    async with live(replica) as first:
        await eventually(lambda: first.partition.active)
        await commit_in(first, 5)
    replica.high_watermark = Offset(0)
    async with live(replica, epoch=6, isr=(1, 2)) as second:
        second.partition.marked(PRODUCER.producer_id, commit=True)
        second.partition.marked(PRODUCER.producer_id, commit=False)
        await asyncio.sleep(0)
        assert not second.partition.active
        registration = LIVE[BrokerId(2)]
        end_offset = replica.log.log_end_offset
        second.leader.leadership.fetched(registration.id, registration.epoch, end_offset, subscription=1)
        second.leader.leadership.turn()
        await eventually(lambda: second.partition.active)
        (group,) = second.partition.committed()
        assert group.offsets.get(ORDERS) is not None and not group.offsets.unstable(ORDERS)


async def test_a_batch_in_a_transaction_has_its_producer_and_no_other_write() -> None:
    """And no sequence, as from Kafka's coordinators. The order is that of the commits."""
    other = ProducerIdentity(8, 3)
    async with live(offsets_replica()) as found:
        await eventually(lambda: found.partition.active)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(found.commit("g", 1))
            tasks.create_task(commit_in(found, 2))
            tasks.create_task(commit_in(found, 3))
            tasks.create_task(commit_in(found, 4, other))
            tasks.create_task(found.commit("g", 5))
        written = [
            (b.is_transactional, b.producer_id, b.producer_epoch, b.record_count) for b in batches(found)
        ]
        assert written == [(False, -1, -1, 1), (True, 7, 0, 2), (True, 8, 3, 1), (False, -1, -1, 1)]
        assert all(batch.base_sequence == -1 for batch in batches(found))
        await end(found, commit=True)
        await end(found, commit=True, producer=other)
        assert await found.committed("g") == await stable(found) == 5


async def test_a_commit_that_was_admitted_before_the_marker_does_not_begin_another_transaction() -> None:
    """KIP-890: nothing would end it, and readers of stable offsets would wait forever."""
    async with live(offsets_replica()) as found:
        await eventually(lambda: found.partition.active)
        early = Transactional(PRODUCER, NO_MARKER)
        await commit_as(found, 5, early)
        await end(found, commit=True)
        assert isinstance(await refusal(commit_as(found, 9, early)), InvalidTransactionState)
        assert await found.committed("g") == await stable(found) == 5
        await commit_in(found, 9)
        assert await stable(found) is UnstableOffsetCommit
