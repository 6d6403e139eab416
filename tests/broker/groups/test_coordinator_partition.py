"""One coordinator partition over real logs: loaded before it serves, written before it answers, bound to its
epoch."""

from __future__ import annotations

import asyncio

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.broker.core.groups.requests import Join, ListGroups
from strandline.broker.replication.leader_end import FollowerStream
from strandline.errors import (
    CoordinatorLoading,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from strandline.records import split
from strandline.vocabulary.groups import GroupProtocol, Heartbeat, Joined, JoinGroup, MemberIdGiven, SyncGroup
from strandline.vocabulary.metadata import IsrMember, PartitionState
from tests.broker.groups.live import ALONE, Live, live, refusal
from tests.broker.support.replicas import LIVE, NAME, open_replica, subscribe
from tests.waiting import eventually


def batches(found: Live) -> int:
    """In the log."""
    log = found.leader.replica.log
    return len(split(log.read(log.log_start_offset, 1 << 20, below=log.log_end_offset)))


async def serving(found: Live) -> None:
    await eventually(lambda: found.partition.active)


def reported(found: Live, broker: int, end: int) -> None:
    """A follower has reported this position."""
    leadership = found.leader.leadership
    registration = LIVE[BrokerId(broker)]
    leadership.fetched(registration.id, registration.epoch, end, subscription=1)
    leadership.turn()


async def acknowledging(link: FollowerStream) -> None:
    """A follower that answers each message, forever."""
    while True:
        sequence, _ = await link.next_message()
        link.acknowledge(sequence)


async def joined(found: Live, group: str, *, member: str = "") -> Joined:
    """The one member of a group, with its assignment."""
    request = JoinGroup(group, member, 10_000, 10_000, "consumer", (GroupProtocol("range", b"m"),))
    answer = await found.partition.ask(Join(request, "member-1", "127.0.0.1"))
    if isinstance(answer, MemberIdGiven):
        return await joined(found, group, member=answer.member)
    assert isinstance(answer, Joined)
    sync = SyncGroup(group, answer.member, answer.generation, "consumer", "range", {answer.member: b"a"})
    assert await found.partition.ask(sync) == b"a"
    return answer


async def beat(found: Live, group: str, answer: Joined, *, wait_ms: int = 0) -> None:
    request = Heartbeat(group, answer.member, answer.generation, max_wait_ms=wait_ms)
    await found.partition.ask(request)


# --- loading ------------------------------------------------------------------------------------


async def test_until_the_watermark_is_known_every_caller_must_wait() -> None:
    """CORRECTNESS H1: below it the log may still lose what it holds; nothing of it is served before."""
    replica = open_replica(ALONE)
    async with live(replica) as first:
        await serving(first)
        await first.commit("g", 5)
    replica.high_watermark = Offset(0)
    async with live(replica, epoch=6, isr=(1, 2)) as second:
        assert isinstance(await refusal(second.committed("g")), CoordinatorLoading)
        assert not second.partition.active
        reported(second, 2, replica.log.log_end_offset)
        await serving(second)
        assert await second.committed("g") == 5


async def test_the_next_coordinator_has_everything_that_was_answered() -> None:
    """CORRECTNESS G12, G13: offsets, generation and assignment are in the log before any client receives an
    answer."""
    replica = open_replica(ALONE)
    async with live(replica, group_initial_rebalance_delay_ms=0) as first:
        await serving(first)
        answer = await joined(first, "g")
        for number in range(100):
            await first.commit(f"other-{number}", number)
    async with live(replica, epoch=6) as second:
        await serving(second)
        await beat(second, "g", answer)  # no IllegalGeneration, no UnknownMemberId, no RebalanceInProgress
        assert [await second.committed(f"other-{n}") for n in range(100)] == list(range(100))


async def test_a_load_gives_way_to_other_work() -> None:
    """Nothing blocks the event loop for long; many turns of it pass while a long log is read."""
    replica = open_replica(ALONE)
    async with live(replica) as first:
        await serving(first)
        async with asyncio.TaskGroup() as tasks:
            for number in range(3_000):
                tasks.create_task(first.commit(f"g{number}", number))
    turns = 0
    async with live(replica, epoch=6) as second:
        while not second.partition.active:
            turns += 1
            await asyncio.sleep(0)
        assert await second.committed("g2999") == 2999
    assert turns > 5, turns


async def test_a_record_that_cannot_be_read_keeps_no_group_from_its_members() -> None:
    replica = open_replica(ALONE)
    async with live(replica) as first:
        await serving(first)
        await first.commit("before", 1)
        first.leader.produce("no key, no record of ours")
        await first.commit("after", 2)
    async with live(replica, epoch=6) as second:
        await serving(second)
        assert (await second.committed("before"), await second.committed("after")) == (1, 2)


async def test_a_load_whose_epoch_is_over_is_thrown_away() -> None:
    """A leadership that ends before the log is read answers NotCoordinator from then on, and never serves."""
    replica = open_replica(ALONE)
    async with live(replica) as first:
        await serving(first)
        await first.commit("g", 5)
    replica.high_watermark = Offset(0)
    async with live(replica, epoch=6, isr=(1, 2)) as second:
        await asyncio.sleep(0)
        second.partition.end()
        reported(second, 2, replica.log.log_end_offset)
        assert isinstance(await refusal(second.committed("g")), NotCoordinator)
        assert not second.partition.active


# --- writing ------------------------------------------------------------------------------------


async def test_writes_requested_in_one_turn_or_during_a_batch_share_a_batch() -> None:
    """A thousand commits at once are a few batches, in the order in which they were asked for."""
    async with live() as found:
        await serving(found)
        async with asyncio.TaskGroup() as tasks:
            for number in range(1_000):
                tasks.create_task(found.commit("g", number))
        assert await found.committed("g") == 999
        assert found.leader.replica.log.log_end_offset == 1_000
        assert batches(found) < 10


async def test_no_caller_is_answered_before_the_write_is_committed() -> None:
    """CORRECTNESS G12: durable first, visible after: neither the answer nor a fetch is ahead of the HW."""
    async with live(isr=(1, 2)) as found:
        await serving(found)
        async with asyncio.TaskGroup() as tasks:
            committing = tasks.create_task(found.commit("g", 5))
            await eventually(lambda: found.leader.replica.log.log_end_offset == 1)
            assert not committing.done()
            assert await found.committed("g") is None
            reported(found, 2, 1)
        assert await found.committed("g") == 5


async def test_a_write_that_fails_is_an_error_and_is_not_seen() -> None:
    """CORRECTNESS G12: too few in-sync replicas; retriable, and the offset before it stands."""
    async with live(isr=(1, 2)) as found:
        await serving(found)
        found.leader.leadership.core.min_insync = 3
        assert isinstance(await refusal(found.commit("g", 5)), CoordinatorNotAvailable)
        assert await found.committed("g") is None
        found.leader.leadership.core.min_insync = 1
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(found.commit("g", 6))
            await eventually(lambda: found.leader.replica.log.log_end_offset == 1)
            reported(found, 2, 1)
        assert await found.committed("g") == 6


async def test_more_writes_than_may_wait_are_refused_and_the_others_written() -> None:
    """CONTRIBUTING 7: the queue is bounded; what is over it is refused, retriable, and not written."""
    async with live(commit_queue_entries_max=10) as found:
        await serving(found)
        async with asyncio.TaskGroup() as tasks:
            tries = [tasks.create_task(refusal(found.commit(f"g{n}", n))) for n in range(25)]
        outcomes = [task.result() for task in tries]
        assert outcomes[:10] == [None] * 10
        assert all(isinstance(outcome, CoordinatorNotAvailable) for outcome in outcomes[10:])
        assert found.leader.replica.log.log_end_offset == 10


# --- the end ------------------------------------------------------------------------------------


async def test_waiting_requests_are_redirected_when_the_leadership_ends() -> None:
    """Unfinished operations count for nothing: a commit, a held heartbeat, and the requests after them."""
    async with live(isr=(1, 2), group_initial_rebalance_delay_ms=0) as found:
        await serving(found)
        async with asyncio.TaskGroup() as tasks:
            committing = tasks.create_task(refusal(found.commit("g", 5)))
            await eventually(lambda: found.leader.replica.log.log_end_offset == 1)
            found.partition.end()
            reported(found, 2, 1)
        assert isinstance(committing.result(), NotCoordinator)
        assert isinstance(await refusal(found.committed("g")), NotCoordinator)


async def test_a_held_heartbeat_is_answered_when_the_leadership_ends() -> None:
    async with live(group_initial_rebalance_delay_ms=0) as found:
        await serving(found)
        answer = await joined(found, "g")
        async with asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(refusal(beat(found, "g", answer, wait_ms=5_000)))
            await asyncio.sleep(0)
            found.partition.end()
        assert isinstance(beating.result(), NotCoordinator)


async def test_cut_off_from_zookeeper_it_coordinates_only_while_all_in_sync_replicas_follow() -> None:
    """CORRECTNESS E1, G1: a heartbeat writes nothing, so no log would fence the one that was replaced; and
    it would answer with offsets that have been passed. Seen in containers: the streams to a broker whose
    network was cut stayed open, and when it was back it answered for groups that another had long had."""
    async with live(isr=(1, 2, 3), keep_in_sync_ms=50) as found, asyncio.TaskGroup() as tasks:
        await serving(found)
        links = [found.leader.link(broker) for broker in (2, 3)]
        for link in links:
            link.subscribe(subscribe(5, 0, -1))
        found.lease[0] = False
        playing = [tasks.create_task(acknowledging(link)) for link in links]
        # ZooKeeper may be away for all: no other broker is elected then.
        assert await found.committed("g") is None
        playing[0].cancel()  # its network is cut, or it leads by now: its stream is open
        assert isinstance(await refusal(found.committed("g")), NotCoordinator)
        found.lease[0] = True
        assert await found.committed("g") is None
        playing[1].cancel()


async def test_a_coordinator_that_was_replaced_at_once_answers_nothing_from_memory() -> None:
    """CORRECTNESS E1, G1: its session is in force, for its successor did not wait for the end of it. It
    answered OffsetFetch with 5 after the other one had committed 77."""
    async with live(isr=(1, 2), keep_in_sync_ms=50) as found, asyncio.TaskGroup() as tasks:
        await serving(found)
        link = found.leader.link(2)
        link.subscribe(subscribe(5, 0, -1))
        playing = tasks.create_task(acknowledging(link))
        assert await found.committed("g") is None
        link.unsubscribe(1)  # it stands, and wins; the leader has heard of nothing
        state = PartitionState(BrokerId(2), LeaderEpoch(6), (IsrMember(BrokerId(2), BrokerEpoch(20)),))
        await found.leader.session.set(znodes.isr(*NAME), isr_znodes.dump_isr(state))
        assert isinstance(await refusal(found.committed("g")), NotCoordinator)
        playing.cancel()


# --- time ---------------------------------------------------------------------------------------


async def test_a_silent_member_is_removed_even_without_requests() -> None:
    """Deadlines come by themselves: the task sleeps until the next one, which a request may bring nearer."""
    async with live(group_initial_rebalance_delay_ms=0, group_session_timeout_ms_min=1) as found:
        await serving(found)
        request = JoinGroup("g", "", 30, 30, "consumer", (GroupProtocol("range", b""),))
        answer = await refusal(found.partition.ask(Join(request, "m", "h")))
        assert answer is None

        async def forgotten() -> bool:
            groups = await found.partition.ask(ListGroups())
            return not groups

        await eventually(forgotten)


async def test_a_caller_that_goes_away_leaves_the_group_unharmed() -> None:
    """Its held call has no answer; the member may call again, and is in the generation."""
    async with live(group_initial_rebalance_delay_ms=50) as found:
        await serving(found)
        joining = asyncio.timeout(None)
        with pytest.raises(TimeoutError):
            async with joining:
                asyncio.get_running_loop().call_soon(joining.reschedule, 0)
                await joined(found, "g")
        answer = await joined(found, "g", member="member-1")
        assert (answer.generation, answer.leader) == (1, "member-1")
        await beat(found, "g", answer)
