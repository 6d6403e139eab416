"""A consumer that stops releases its partitions in order: committed, revoked, and read on by others
(docs/use/groups.md)."""

from __future__ import annotations

import asyncio

import pytest

from strandline import RebalanceListener, TopicPartition
from strandline.consumer.core.member_states import State
from strandline.errors import FencedInstanceId, InvalidRequest, UnknownMemberId
from strandline.testing import MemoryCluster
from tests.integration.groups.support.group_members import (
    GROUP_SETTINGS,
    Members,
    Participant,
    RebalanceLog,
    loading,
    new_group,
    new_topic,
    write,
)
from tests.waiting import eventually

pytestmark = pytest.mark.slow

WAIT_MS = 10_000
EARLY_S = 2.0
"""Less than a departure waits for a rebalance to end."""

both_protocols = pytest.mark.parametrize("protocol", ["eager", "cooperative"])


async def offsets(cluster: MemoryCluster, group: str) -> dict[TopicPartition, int]:
    """The committed offsets of the group."""
    async with cluster.admin() as admin:
        return {name: entry.offset for name, entry in (await admin.group_offsets(group)).items()}


async def test_two_stops_at_once_are_one(cluster: MemoryCluster) -> None:
    """The second waits for the first: all callbacks, the commit, the departure, and no error."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 3)
    group, heard = new_group(), RebalanceLog()
    consumer = cluster.consumer(group_id=group, **GROUP_SETTINGS)
    await consumer.start()
    consumer.subscribe([topic], listener=heard)
    assert [(await consumer.getone()).offset for _ in range(3)] == [0, 1, 2]
    await consumer.commit()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(consumer.stop())
    assert heard.kinds() == ["assigned", "revoked"]
    assert await offsets(cluster, group) == {TopicPartition(topic, 0): 3}
    async with cluster.admin() as admin:
        assert (await admin.describe_group(group)).group.state == "Empty"


async def test_a_stop_of_another_task_lets_the_reader_say_that_it_is_done(cluster: MemoryCluster) -> None:
    """The reader closes in peace while a close is under way: what it holds is done, and committed."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 1)
    group = new_group()
    async with (
        asyncio.TaskGroup() as tasks,
        cluster.consumer(group_id=group, **GROUP_SETTINGS) as consumer,
    ):
        consumer.subscribe([topic])
        _ = await consumer.getone()
        tasks.create_task(consumer.stop())
        await asyncio.sleep(0)
    assert await offsets(cluster, group) == {TopicPartition(topic, 0): 1}


@pytest.mark.parametrize("call", ["getone", "getmany", "getbatches"])
async def test_a_listener_cannot_ask_its_consumer_for_records(cluster: MemoryCluster, call: str) -> None:
    """None can come before it returns: the call raises, also in a task that the listener waits for;
    everything continues."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 1)
    group = new_group()

    class Asks(RebalanceListener):
        async def on_assigned(self, added: set[TopicPartition]) -> None:
            with pytest.raises(InvalidRequest, match="cannot ask its consumer"):
                await getattr(consumer, call)()
            await asyncio.wait_for(getattr(consumer, call)(), 60)

    async with cluster.consumer(group_id=group, **GROUP_SETTINGS) as consumer:
        consumer.subscribe([topic], listener=Asks())
        with pytest.raises(InvalidRequest, match="cannot ask its consumer"):
            _ = await consumer.getone()
        assert (await consumer.getone()).offset == 0


async def test_a_close_does_not_wait_forever_for_a_listener(cluster: MemoryCluster) -> None:
    """G10: one that hangs, and one that waits for what was cancelled, cost the others nothing."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 1)
    group, calls = new_group(), []

    class Hangs(RebalanceListener):
        async def on_assigned(self, added: set[TopicPartition]) -> None:
            calls.append("assigned")
            raise asyncio.CancelledError

        async def on_revoked(self, removed: set[TopicPartition]) -> None:
            calls.append("revoked")
            await asyncio.Event().wait()

    settings = {**GROUP_SETTINGS, "max_poll_interval_ms": 1000}
    async with cluster.consumer(group_id=group, **settings) as consumer:
        consumer.subscribe([topic], listener=Hangs())
        with pytest.raises(RuntimeError, match="waited for what was cancelled"):
            _ = await consumer.getone()
        assert (await consumer.getone()).offset == 0
    assert calls == ["assigned", "revoked"]
    assert await offsets(cluster, group) == {TopicPartition(topic, 0): 1}


# --- in the middle of a rebalance -----------------------------------------------------------------


class HeldUp:
    """A rebalance that waits for the `on_revoked` of its second member, until `go_on`."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.go_on = asyncio.Event()

    async def begin(self, partitions: int) -> tuple[Participant, Participant, Participant]:
        first, second = await self.members.join(), await self.members.join()
        await self.members.settled(first, second, partitions=partitions)
        holding = asyncio.Event()

        async def hold_up(kind: str, gone: set[TopicPartition]) -> None:
            if kind == "revoked":
                holding.set()
                await self.go_on.wait()

        second.heard.before = hold_up
        third = await self.members.join()
        await holding.wait()
        return first, second, third


async def test_a_close_in_a_rebalance_commits_at_once(cluster: MemoryCluster) -> None:
    """The coordinator takes commits until the next generation is there: what is processed need not wait for
    a rebalance that others hold up, and so cannot come too late (G1)."""
    topic = await new_topic(cluster, 6)
    settings = {"rebalance_protocol": "cooperative", "auto_commit_interval_ms": 60_000}
    async with Members(cluster, [topic], **settings) as members:
        held_up = HeldUp(members)
        first, _, _ = await held_up.begin(6)
        kept = min(first.consumer.assignment() & first.owned)
        await write(cluster, topic, kept.partition, 5)
        await eventually(lambda: len(first.records) == 5, what="a kept partition is read on")
        group = first.consumer._group
        assert group is not None
        await eventually(lambda: group._core.state is State.JOINING, what="it waits for the others")
        first.stop()

        async def committed() -> bool:
            return (await offsets(cluster, members.group)).get(kept) == 5

        await eventually(committed, deadline_s=EARLY_S, what="it is committed in the middle of the rebalance")
        held_up.go_on.set()
        await members.leave(first)
        assert "lost" not in first.heard.kinds() and first.owned == set()


async def test_an_unsubscription_in_a_rebalance_is_orderly(cluster: MemoryCluster) -> None:
    """From that call on nothing is handed out, and nothing is read twice: the release waits for the
    rebalance, in whose middle nothing may be committed (G1)."""
    topic = await new_topic(cluster, 6)
    async with Members(cluster, [topic], rebalance_protocol="cooperative") as members:
        held_up = HeldUp(members)
        first, second, third = await held_up.begin(6)
        for partition in range(6):
            await write(cluster, topic, partition)
        await eventually(lambda: first.records, what="kept partitions are read on")
        first.consumer.unsubscribe()
        before = len(first.records)
        for partition in range(6):
            await write(cluster, topic, partition)
        held_up.go_on.set()
        await members.settled(second, third, partitions=6)
        await eventually(lambda: len(members.seen()) == 12, what="all is read")
        assert set(members.seen().values()) == {1} and len(first.records) == before
        assert "lost" not in first.heard.kinds()


@both_protocols
async def test_another_subscription_and_none_leave_nothing_to_be_read_twice(
    cluster: MemoryCluster, protocol: str
) -> None:
    """KIP-429 (a), and a departure right after it: on_revoked, and what was processed is committed."""
    first, second = await new_topic(cluster, 3), await new_topic(cluster, 3)
    for topic in (first, second):
        await write(cluster, topic, 0, 6)
    group, heard = new_group(), RebalanceLog()
    settings = {**GROUP_SETTINGS, "rebalance_protocol": protocol, "auto_commit_interval_ms": 60_000}
    async with cluster.consumer(group_id=group, **settings) as consumer:
        consumer.subscribe([first], listener=heard)
        read = [await consumer.getone() for _ in range(5)]
        consumer.subscribe([second], listener=heard)
        read.append(await consumer.getone())
        consumer.unsubscribe()
        assert await consumer.getmany() == {}
        await eventually(lambda: not consumer.assignment(), what="all is given up")
        stood = await offsets(cluster, group)
    for record in read:
        assert stood[TopicPartition(record.topic, record.partition)] > record.offset
    assert "lost" not in heard.kinds() and heard.owned() == set()


@both_protocols
@pytest.mark.parametrize("spacing", [0, 1, 100])
async def test_all_members_stop_one_soon_after_the_other(
    cluster: MemoryCluster, protocol: str, spacing: int
) -> None:
    """Nothing crashes, so all handed-out records are committed and nothing is lost (G6): each stops when
    it has been handed out this number of records since the one before it stopped."""
    topic = await new_topic(cluster, 6)
    async with (
        loading(cluster, {topic: 6}),
        Members(cluster, [topic], rebalance_protocol=protocol) as members,
    ):
        several = [await members.join() for _ in range(3)]
        await members.settled(*several, partitions=6)
        for member in several:
            await _reads_on(member, 1)
        for member in several:
            await _reads_on(member, spacing)
            member.stop()
        for member in several:
            await members.leave(member)
        stood = await offsets(cluster, members.group)
    assert set(members.seen().values()) == {1}
    for _, partition, offset in members.seen():
        assert stood[TopicPartition(topic, partition)] > offset
    assert all("lost" not in member.heard.kinds() for member in several)


async def _reads_on(member: Participant, how_many: int) -> None:
    wanted = len(member.records) + how_many
    await eventually(lambda: len(member.records) >= wanted, what=f"{how_many} more records")


async def test_from_a_subscription_to_assigned_partitions(cluster: MemoryCluster) -> None:
    """The assignment waits until the subscribed partitions are released, and continues after the processed
    records; the last call counts."""
    topic = await new_topic(cluster, 2)
    name = TopicPartition(topic, 0)
    await write(cluster, topic, 0, 4)
    group, heard = new_group(), RebalanceLog()
    async with cluster.consumer(group_id=group, **GROUP_SETTINGS) as consumer:
        consumer.subscribe([topic], listener=heard)
        assert [(await consumer.getone()).offset for _ in range(2)] == [0, 1]
        with pytest.raises(InvalidRequest, match="is subscribed"):
            consumer.assign([name])
        consumer.unsubscribe()
        consumer.assign([TopicPartition(topic, 1)])
        consumer.assign([name])
        assert (await consumer.getone()).offset == 2
        assert consumer.assignment() == {name} and heard.kinds() == ["assigned", "revoked"]
        await consumer.commit()
        assert await offsets(cluster, group) == {name: 3, TopicPartition(topic, 1): 0}
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        consumer.subscribe([topic], listener=heard)
        assert (await consumer.getone()).offset == 3
        consumer.unsubscribe()
        consumer.assign([name])
        consumer.subscribe([topic], listener=heard)
        assert await consumer.getmany() == {}
        await eventually(lambda: len(heard.owned()) == 2, what="it is subscribed once more")
        assert consumer.assignment() == heard.owned()


# --- commits that come too late -------------------------------------------------------------------


async def test_a_commit_of_lost_records_raises(cluster: MemoryCluster) -> None:
    """As long as the application continues with records from before: no silent None (G12)."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 2)
    group = new_group()
    settings = {**GROUP_SETTINGS, "max_poll_interval_ms": 1000, "enable_auto_commit": False}
    async with cluster.consumer(group_id=group, **settings) as consumer:
        consumer.subscribe([topic])
        _ = await consumer.getone()
        await eventually(lambda: not consumer.assignment(), what="it took too long")
        for _ in range(2):
            with pytest.raises(UnknownMemberId, match=rf"max_poll_interval_ms.*{topic}-0 is not committed"):
                await consumer.commit()
        assert (await consumer.getone()).offset == 0
        await consumer.commit()
        await eventually(lambda: not consumer.assignment(), what="it took too long again")
        await consumer.commit()
        assert await offsets(cluster, group) == {TopicPartition(topic, 0): 1}


async def test_a_commit_of_a_fenced_member_is_refused_as_fenced(cluster: MemoryCluster) -> None:
    """KIP-345: another process has its place, and what was handed out here is not committed (G1)."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 1)
    settings = {**GROUP_SETTINGS, "group_instance_id": "one", "enable_auto_commit": False}
    group, heard = new_group(), RebalanceLog()
    async with (
        cluster.consumer(group_id=group, **settings) as consumer,
        cluster.consumer(group_id=group, **settings) as usurper,
    ):
        consumer.subscribe([topic], listener=heard)
        _ = await consumer.getone()
        usurper.subscribe([topic])
        assert (await usurper.getone()).offset == 0
        await eventually(lambda: "lost" in heard.kinds(), what="the first is fenced")
        with pytest.raises(FencedInstanceId):
            await consumer.commit()
