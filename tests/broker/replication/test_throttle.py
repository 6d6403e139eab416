"""The throttle of replicas that are added or refill: real logs, a follower that the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.replication.leader_end import FollowerStream
from strandline.broker.replication.throttle import BURST_S
from strandline.ids import BrokerId, PartitionId, PartitionKey
from strandline.vocabulary.metadata import Reassignment
from strandline.vocabulary.replication import Push
from tests.broker.support.replicas import (
    ASSIGNED,
    CLOCK,
    KEY,
    LIVE,
    Led,
    leading,
    open_replica,
    subscribe,
    write,
)
from tests.waiting import eventually

NEW = BrokerId(3)
BATCHES, BYTES = 40, 1_000
COMMITTED = 20
RATE = 20_000


def moving(*, rate: int = 0, original: tuple[int, ...] = (1, 2)) -> PartitionAssignment:
    """Broker 3 is new."""
    brokers = tuple(BrokerId(b) for b in original)
    return PartitionAssignment(ASSIGNED, 1, Reassignment(KEY.topic_id, ASSIGNED, brokers, rate))


@asynccontextmanager
async def copying(
    assignment: PartitionAssignment, *, isr: tuple[int, ...] = (1, 2), **given: Any
) -> AsyncIterator[tuple[Led, FollowerStream]]:
    """A leader with forty thousand bytes, of which broker 3 has nothing, and broker 3's stream."""
    replica = open_replica()
    write(replica, 4, *("x" * BYTES for _ in range(BATCHES)))
    replica.assignment = assignment
    async with leading(replica, 5, isr=isr) as leader:
        link = leader.link(NEW, **{"reassignment_near_bytes": 0, "push_bytes_max": 4_096, **given})
        link.subscribe(subscribe(5, 0, -1))
        try:
            yield leader, link
        finally:
            link.close()


async def take(link: FollowerStream, pushes: list[tuple[float, Push]]) -> None:
    """Read, and report at once that it is written. Runs until cancelled."""
    while True:
        sequence, received = await link.next_message()
        pushes += ((CLOCK.monotonic(), push) for push in received)
        link.acknowledge(sequence)


@asynccontextmanager
async def taking(link: FollowerStream) -> AsyncIterator[list[tuple[float, Push]]]:
    """Takes in the background; the list grows with each push."""
    pushes: list[tuple[float, Push]] = []
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(take(link, pushes))
        yield pushes
        reading.cancel()


def size(pushes: list[tuple[float, Push]], *, sub_id: int = 1) -> int:
    return sum(len(push.records) for _, push in pushes if push.subscription_id == sub_id)


async def copied(leader: Led, link: FollowerStream) -> tuple[float, list[tuple[float, Push]]]:
    """(seconds until all is sent, what was)."""
    began, pushes = CLOCK.monotonic(), list[tuple[float, Push]]()
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(take(link, pushes))
        await eventually(lambda: size(pushes) >= leader.replica.log.size_bytes)
        reading.cancel()
    return CLOCK.monotonic() - began, pushes


async def test_a_new_replica_gets_no_more_than_the_partitions_bound() -> None:
    """CORRECTNESS I10: at no moment more than the burst, the rate since the beginning and one batch."""
    async with copying(moving(rate=RATE)) as (leader, link):
        began = CLOCK.monotonic()
        seconds, pushes = await copied(leader, link)
        sent = 0
        for moment, push in pushes:
            sent += len(push.records)
            assert sent <= RATE * (moment - began + BURST_S) + 2 * BYTES
        assert seconds >= leader.replica.log.size_bytes / RATE - BURST_S - 0.2


async def test_a_new_replica_gets_no_more_than_the_brokers_bound() -> None:
    """CORRECTNESS I10: over all partitions, for any throttle of their own."""
    async with copying(moving(rate=1_000_000), reassignment_bytes_per_s=RATE) as (leader, link):
        seconds, _ = await copied(leader, link)
        assert seconds >= leader.replica.log.size_bytes / RATE - BURST_S - 0.2


async def test_the_pace_of_a_copy_is_known_until_its_flow_or_its_reassignment_ends() -> None:
    async with copying(moving(rate=RATE)) as (leader, link), taking(link):
        await eventually(lambda: leader.leadership.copies.offset(NEW))
        link.unsubscribe(1)
        assert leader.leadership.copies.offset(NEW) is None
        link.subscribe(subscribe(5, 0, -1, sub_id=2))
        await eventually(lambda: leader.leadership.copies.offset(NEW))
        leader.replica.assignment = PartitionAssignment(ASSIGNED, 2)
        leader.leadership.reconfigured()
        assert leader.leadership.copies.offset(NEW) is None


async def test_a_member_of_the_isr_has_no_pace() -> None:
    """Nothing is counted on the way of records that are produced."""
    async with copying(PartitionAssignment(ASSIGNED, 1), isr=(1, 2, 3)) as (leader, link):
        await copied(leader, link)
        assert leader.leadership.copies.offset(NEW) is None


async def test_a_replica_that_refills_has_a_pace_until_it_has_what_is_committed() -> None:
    """No reassignment adds it: its disk is empty, or its broker was away."""
    for assignment in (moving(original=(1, 2, 3)), PartitionAssignment(ASSIGNED, 1)):
        async with copying(assignment, refill_bytes_per_s=RATE) as (leader, link), taking(link) as pushes:
            leader.leadership.fetched(BrokerId(2), LIVE[BrokerId(2)].epoch, COMMITTED, subscription=9)
            await eventually(lambda: leader.replica.high_watermark == COMMITTED)
            await eventually(lambda: leader.leadership.copies.offset(NEW))
            await eventually(lambda: size(pushes) >= leader.replica.log.size_bytes)
            assert leader.leadership.copies.offset(NEW) is None


async def test_without_a_bound_a_new_replica_gets_everything_at_once() -> None:
    async with copying(moving()) as (leader, link):
        await copied(leader, link)
        assert link.throttle.holds == 0


async def test_a_replica_that_was_assigned_before_is_never_held_back() -> None:
    """CORRECTNESS I10: one that fell behind has to come back as fast as it can."""
    async with copying(moving(rate=1, original=(1, 2, 3)), reassignment_bytes_per_s=1) as (leader, link):
        await copied(leader, link)
        assert link.throttle.holds == 0


async def test_a_replica_that_refills_gets_no_more_than_the_brokers_bound() -> None:
    """CORRECTNESS I10: a bound of its own, with or without a reassignment of the partition."""
    for assignment in (moving(rate=1, original=(1, 2, 3)), PartitionAssignment(ASSIGNED, 1)):
        async with copying(assignment, refill_bytes_per_s=RATE) as (leader, link):
            seconds, _ = await copied(leader, link)
            assert seconds >= leader.replica.log.size_bytes / RATE - BURST_S - 0.2
            assert link.throttle.holds == 0, "what reassignments wait for is counted alone"


async def test_a_member_of_the_isr_does_not_refill() -> None:
    async with copying(PartitionAssignment(ASSIGNED, 1), isr=(1, 2, 3), refill_bytes_per_s=1) as (
        leader,
        link,
    ):
        await copied(leader, link)


async def test_a_replica_that_refilled_gets_the_bound_of_the_reassignment_that_adds_it() -> None:
    """And the other way round: a flow that waits by the old bound is let go when there is another."""
    async with (
        copying(moving(rate=1), refill_bytes_per_s=1_000_000) as (leader, link),
        taking(link) as pushes,
    ):
        await eventually(lambda: link.held)
        leader.replica.assignment = PartitionAssignment(ASSIGNED, 2)
        write(leader.replica, 5, "y")
        await eventually(lambda: size(pushes) >= leader.replica.log.size_bytes)


async def test_a_new_replica_that_is_in_sync_is_never_held_back() -> None:
    """CORRECTNESS I10: a throttled member would leave the ISR, catch up, return and leave again."""
    async with copying(moving(rate=1), isr=(1, 2, 3), reassignment_bytes_per_s=1) as (leader, link):
        await copied(leader, link)
        assert link.throttle.holds == 0


async def test_near_the_end_no_replica_is_held_back() -> None:
    """CORRECTNESS I10: or it would never join while records are written."""
    near = 10 * BYTES
    async with copying(moving(rate=1), reassignment_near_bytes=near) as (leader, link):
        link.unsubscribe(1)
        offset = BATCHES - 8
        link.subscribe(subscribe(5, offset, 4, sub_id=2))
        async with taking(link) as pushes:
            wanted = leader.replica.log.bytes_from(offset)
            await eventually(lambda: size(pushes, sub_id=2) == wanted)
        assert wanted < near


async def test_other_flows_of_the_same_stream_continue_meanwhile() -> None:
    """CORRECTNESS I10: a stream carries many partitions; one that waits for a minute delays no other."""
    other = open_replica()
    other.key = PartitionKey(KEY.topic_id, PartitionId(1))
    async with copying(moving(rate=10)) as (leader, link), leading(other, 5) as second:
        link.find = lambda key, _: other if key == other.key else leader.replica
        async with taking(link) as pushes:
            await eventually(lambda: link.held)
            before = size(pushes)
            assert before <= 2 * (BYTES + 200)
            link.subscribe(replace(subscribe(5, 0, -1, sub_id=2), key=other.key))
            for _ in range(50):
                second.produce("received", acks=1)
                await eventually(lambda: size(pushes, sub_id=2) == other.log.size_bytes)
                leader.produce("more", acks=1)  # wakes the one that waits, for nothing
            assert size(pushes) == before


async def test_the_end_of_the_reassignment_frees_at_once() -> None:
    """Also that of its bound: what waited for a minute is sent."""
    async with copying(moving(rate=10)) as (leader, link), taking(link) as pushes:
        await eventually(lambda: link.held)
        leader.replica.assignment = PartitionAssignment(ASSIGNED, 2)
        leader.leadership.reconfigured()
        await eventually(lambda: size(pushes) == leader.replica.log.size_bytes)


async def test_a_bound_that_is_raised_or_lifted_is_not_waited_out() -> None:
    """Data that waits under the old bound is sent under the new one at once."""
    async with copying(moving(rate=10)) as (leader, link), taking(link) as pushes:
        for rate in (1_000_000, 10, 0):
            await eventually(lambda: link.held or size(pushes) == leader.replica.log.size_bytes)
            leader.replica.assignment = replace(moving(rate=rate), version=2 + rate)
            leader.leadership.reconfigured()
        await eventually(lambda: size(pushes) == leader.replica.log.size_bytes)


async def test_a_flow_that_ends_while_it_is_held_back_leaves_its_share() -> None:
    """Nothing is left of it, no timer and no debt."""
    async with copying(moving(rate=100)) as (_, link), taking(link):
        await eventually(lambda: link.held)
        (held,) = link.held
        assert held.grant is not None
        (bucket,) = held.grant.buckets
        owed = bucket.reserve(0, CLOCK.monotonic())
        link.unsubscribe(1)
        assert bucket.reserve(0, CLOCK.monotonic()) < owed
        assert link.held == []
        assert held.held is None


async def test_the_end_of_the_leadership_is_reported_to_a_waiting_caller() -> None:
    """CORRECTNESS H2: it has to follow the next leader, however long it would have waited for this one."""
    async with copying(moving(rate=1)) as (leader, link), taking(link) as pushes:
        await eventually(lambda: link.held)
        leader.leadership.end()
        await eventually(lambda: any(push.error is not None for _, push in pushes))
