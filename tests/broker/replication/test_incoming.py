"""The bound of a broker that takes copies from several leaders: it counts, and they hold what they send."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from strandline.broker.replication.incoming import IncomingCopies
from strandline.broker.replication.throttle import BURST_S
from strandline.ids import PartitionId, PartitionKey
from strandline.vocabulary.replication import Push
from tests.broker.replication.test_throttle import BATCHES, BYTES, copied, copying, moving, size, taking
from tests.broker.storage.support.disk import ManualClock
from tests.broker.support.replicas import (
    CLOCK,
    KEY,
    batch,
    following,
    leading,
    open_replica,
    subscribe,
)
from tests.waiting import eventually

RATE = 10_000
HOUR_MS = 3_600_000


def test_the_copies_of_all_leaders_count_together() -> None:
    """CORRECTNESS I10: over time no more than the rate arrives, however many leaders send."""
    clock = ManualClock()
    copies = IncomingCopies(RATE, clock)
    burst = int(RATE * BURST_S)
    copies.received(burst)
    assert copies.hold_ms == 0
    for _ in range(3):
        copies.received(RATE)
    assert copies.hold_ms == 3_000
    clock.ms += 2_500
    assert copies.hold_ms == 500
    clock.ms += 10_000
    assert copies.hold_ms == 0
    copies.received(burst + RATE)
    assert copies.hold_ms == 1_000


def test_without_a_bound_nothing_is_held() -> None:
    copies = IncomingCopies(0, ManualClock())
    copies.received(1 << 40)
    assert copies.hold_ms == 0


async def test_a_follower_says_for_how_long_with_its_acknowledgement() -> None:
    """Only what the leader marks counts: records of members of the ISR come on the same stream."""
    records = [batch("x" * RATE, base_offset=offset, leader_epoch=5) for offset in range(2)]
    async with following(open_replica(), 5, copies=IncomingCopies(1, CLOCK)) as follower:
        await eventually(lambda: follower.streams)
        assert (await follower.stream.heard()).hold_copies_ms == 0
        follower.stream.push(Push(1, 0, 0, records[0]))
        assert (await follower.stream.heard()).hold_copies_ms == 0
        follower.stream.push(Push(1, 0, 0, records[1], copy=True))
        assert (await follower.stream.heard()).hold_copies_ms > RATE * 900


async def test_a_leader_holds_copies_and_nothing_else_of_the_stream() -> None:
    """CORRECTNESS I10: a member of the ISR that waited would leave it."""
    other = open_replica()
    other.key = PartitionKey(KEY.topic_id, PartitionId(1))
    async with copying(moving()) as (leader, link), leading(other, 5) as second:
        link.find = lambda key, _: other if key == other.key else leader.replica
        link.hold_copies(HOUR_MS)
        async with taking(link) as pushes:
            await eventually(lambda: link.held)
            link.subscribe(replace(subscribe(5, 0, -1, sub_id=2), key=other.key))
            for _ in range(20):
                second.produce("received", acks=1)
                await eventually(lambda: size(pushes, sub_id=2) == other.log.size_bytes)
                leader.produce("more", acks=1)
                link.hold_copies(HOUR_MS)  # each acknowledgement says it again
            assert size(pushes) == 0
            assert link.throttle.holds == 1
            assert not any(push.copy for _, push in pushes)
            link.hold_copies(0)
            await eventually(lambda: size(pushes) == leader.replica.log.size_bytes)
            assert all(push.copy for _, push in pushes if push.subscription_id == 1 and push.records)


async def test_a_replica_near_the_end_or_in_sync_is_not_held() -> None:
    """CORRECTNESS I10: or it would never join, or leave again."""
    near = 2 * BATCHES * BYTES
    for given in ({"reassignment_near_bytes": near}, {"isr": (1, 2, 3)}):
        async with copying(moving(), **given) as (leader, link):
            link.hold_copies(HOUR_MS)
            _, pushes = await copied(leader, link)
            assert link.throttle.holds == 0
            assert not any(push.copy for _, push in pushes)


async def test_the_end_of_the_reassignment_ends_the_hold() -> None:
    """What waited for an hour is sent at once."""
    async with copying(moving()) as (leader, link):
        link.hold_copies(HOUR_MS)
        async with taking(link) as pushes:
            await eventually(lambda: link.held)
            leader.replica.assignment = replace(moving(original=(1, 2, 3)), version=2)
            leader.leadership.reconfigured()
            await eventually(lambda: size(pushes) == leader.replica.log.size_bytes)


async def test_a_follower_with_a_bound_gets_everything_in_the_end() -> None:
    """Both ends together: the copy is held again and again, and completes."""
    source, target = open_replica(), open_replica()
    source.assignment = moving()
    async with leading(source, 5, isr=(1, 2)) as leader:
        for _ in range(BATCHES):
            leader.produce("x" * BYTES, acks=1)
        copies = IncomingCopies(BATCHES * BYTES, CLOCK)
        given: dict[str, Any] = {"reassignment_near_bytes": 0, "push_bytes_max": 4_096}
        async with following(target, 5, leader=leader, broker=3, copies=copies, **given):
            await eventually(lambda: target.log.log_end_offset == source.log.log_end_offset)
