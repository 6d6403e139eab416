"""Confirms that a leader is still followed, with followers that the test plays message by message."""

from __future__ import annotations

import asyncio

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.broker.replication.leader_end import FollowerStream
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch
from strandline.vocabulary.metadata import IsrMember, PartitionState
from tests.broker.support.replicas import CLOCK, NAME, Led, leading, open_replica, subscribe
from tests.waiting import eventually


async def following(leader: Led, broker: int, *, sub_id: int = 1) -> FollowerStream:
    """A follower that has acknowledged all it was sent, which is one message."""
    link = leader.link(broker)
    link.subscribe(subscribe(5, 0, -1, sub_id=sub_id))
    await acknowledge(link)
    return link


async def acknowledge(link: FollowerStream) -> None:
    """The next message."""
    sequence, _ = await link.next_message()
    link.acknowledge(sequence)


async def asked(leader: Led, tasks: asyncio.TaskGroup) -> asyncio.Task[bool]:
    """The question, on its way."""
    question = tasks.create_task(leader.leadership.confirmed())
    await asyncio.sleep(0)
    return question


async def test_all_in_sync_replicas_have_to_say_so_and_after_the_question() -> None:
    """CORRECTNESS E1: what was on its way before proves nothing."""
    async with leading(open_replica(), 5) as leader, asyncio.TaskGroup() as tasks:
        second, third = [await following(leader, broker) for broker in (2, 3)]
        leader.produce("a")
        before, _ = await second.next_message()
        question = await asked(leader, tasks)
        await acknowledge(third)
        second.acknowledge(before)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not question.done()
        await acknowledge(second)
        assert await question


async def test_questions_share_the_message_that_they_are_sent_with() -> None:
    async with leading(open_replica(), 5, isr=(1, 2)) as leader, asyncio.TaskGroup() as tasks:
        link = await following(leader, 2)
        questions = [await asked(leader, tasks) for _ in range(100)]
        sequence, _ = await link.next_message()
        assert sequence == 2
        later = await asked(leader, tasks)
        link.acknowledge(2)
        assert all([await question for question in questions])
        assert not later.done()
        await acknowledge(link)
        assert await later


async def test_a_silent_follower_is_awaited_no_longer_than_a_late_one() -> None:
    """CORRECTNESS E1: its network is cut, and its stream is open."""
    async with leading(open_replica(), 5, isr=(1, 2), keep_in_sync_ms=10) as leader:
        link = await following(leader, 2)
        assert not await leader.leadership.confirmed()
        assert not await leader.leadership.confirmed()
        await acknowledge(link)  # it comes back, and answers all that it was asked


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("how", ["unsubscribe", "close"])
async def test_a_flow_that_ends_is_an_answer(how: str, *, sent: bool) -> None:
    """It follows another leader, or its stream broke: it may have stood for election."""
    async with leading(open_replica(), 5, isr=(1, 2)) as leader, asyncio.TaskGroup() as tasks:
        link = await following(leader, 2)
        question = await asked(leader, tasks)
        if sent:
            await link.next_message()
        if how == "close":
            link.close()
        else:
            link.unsubscribe(1)
            link.acknowledge(2 if sent else 1)
        assert not await question


async def test_a_stream_that_broke_unnoticed_is_not_asked_when_there_is_a_younger_one() -> None:
    async with leading(open_replica(), 5, isr=(1, 2)) as leader, asyncio.TaskGroup() as tasks:
        await following(leader, 2, sub_id=1)
        younger = await following(leader, 2, sub_id=2)
        question = await asked(leader, tasks)
        await acknowledge(younger)
        assert await question


async def test_a_follower_that_does_not_fetch_confirms_nothing_and_one_outside_the_isr_is_not_asked() -> None:
    async with leading(open_replica(), 5, isr=(1, 2)) as leader:
        await following(leader, 3)
        assert not await leader.leadership.confirmed()
    async with leading(open_replica(), 5, isr=(1,)) as alone:
        assert await alone.leadership.confirmed()


async def test_a_leadership_that_ends_meanwhile_is_not_confirmed() -> None:
    async with leading(open_replica(), 5, isr=(1, 2)) as leader, asyncio.TaskGroup() as tasks:
        link = await following(leader, 2)
        question = await asked(leader, tasks)
        leader.leadership.end()
        await acknowledge(link)
        assert not await question


# --- what was said lately ---------------------------------------------------------------------------


async def test_an_acknowledgement_counts_from_the_time_its_message_was_sent_in_this_flow() -> None:
    """CORRECTNESS E1: the follower counts its promise from when it took the message, which is later."""
    async with leading(open_replica(), 5, isr=(1, 2)) as leader:
        link = leader.link(2)
        link.subscribe(subscribe(5, 0, -1))
        (flow,) = leader.leadership.followers
        before = CLOCK.monotonic()
        sequence, _ = await link.next_message()
        sent = CLOCK.monotonic()
        assert flow.followed_at == float("-inf")
        link.acknowledge(sequence)
        assert before <= flow.followed_at <= sent
        link.subscribe(subscribe(5, 0, -1, sub_id=2))
        younger = next(f for f in leader.leadership.followers if f is not flow)
        assert younger.followed_at == float("-inf"), "what was acknowledged is older than it"


async def test_a_leader_is_certain_while_all_in_sync_replicas_have_acknowledged_lately() -> None:
    """CORRECTNESS E1: so acks=1 and a coordinator need no round trip under load."""
    async with leading(open_replica(), 5, isr=(1, 2)) as leader:
        leadership = leader.leadership
        assert not leadership.certain()
        link = await following(leader, 2)

        async def certain() -> bool:
            leader.produce("a")
            await acknowledge(link)
            return leadership.certain()

        await eventually(certain)
        await eventually(lambda: not leadership.certain())
        await eventually(certain)
        leadership.draining = True
        assert not leadership.certain()
    async with leading(open_replica(), 5, isr=(1,)) as alone:
        assert alone.leadership.certain()


async def test_if_a_follower_is_silent_zookeeper_names_the_leader() -> None:
    """CORRECTNESS E1: one that hangs in the ISR makes neither acks=1 nor a group wait for its session."""
    async with leading(open_replica(), 5, isr=(1, 2), keep_in_sync_ms=50) as leader:
        await following(leader, 2)
        await eventually(lambda: not leader.leadership.certain())
        assert await leader.leadership.assured()
        successor = PartitionState(BrokerId(2), LeaderEpoch(6), (IsrMember(BrokerId(2), BrokerEpoch(20)),))
        await leader.session.set(znodes.isr(*NAME), isr_znodes.dump_isr(successor))
        assert not await leader.leadership.assured()
        leader.session.expire()
        assert not await leader.leadership.assured()


async def test_zookeeper_that_does_not_answer_confirms_nothing() -> None:
    """CORRECTNESS E1: cut off from both, a leader is no leader."""
    async with leading(open_replica(), 5, isr=(1, 2), keep_in_sync_ms=50) as leader:
        await following(leader, 2)
        await eventually(lambda: not leader.leadership.certain())
        leader.session.hold()
        assert not await leader.leadership.assured()
