"""Consumers whose coordinator assigns, with real brokers: no member stops for a rebalance (KIP-848)."""

from __future__ import annotations

import asyncio

import pytest

from strandline import Admin, Consumer, TopicPartition
from strandline.consumer.described.reading import read_group
from strandline.errors import InvalidRequest, UnsupportedAssignor
from strandline.testing import MemoryCluster
from tests.integration.groups.support.group_members import (
    Members,
    loading,
    new_group,
    new_topic,
    write,
)
from tests.waiting import eventually


def members_of(cluster: MemoryCluster, topic: str, **settings: object) -> Members:
    return Members(cluster, [topic], group_protocol="consumer", **settings)


async def test_members_come_and_go_and_each_record_is_read_once(cluster: MemoryCluster) -> None:
    """Where nothing crashes, draining and committing before a release leave nothing to be read twice (G6)."""
    topic = await new_topic(cluster, 6)
    async with loading(cluster, {topic: 6}) as load, members_of(cluster, topic) as members:
        first = await members.join()
        await members.settled(first, partitions=6)
        second, third = await members.join(), await members.join()
        await members.settled(first, second, third, partitions=6)
        await eventually(lambda: second.records and third.records, what="all members read")
        await members.leave(second)
        await members.settled(first, third, partitions=6)
        await members.leave(third)
        await members.settled(first, partitions=6)
        await load.finish()
        written = len(load.acked)
        await eventually(lambda: sum(members.seen().values()) >= written, what="everything is read")
        assert members.seen() == dict.fromkeys(load.acked, 1)
        assert [member.errors for member in members.all] == [[], [], []]


async def test_kept_partitions_are_read_on_while_another_member_holds_up_a_move(
    cluster: MemoryCluster,
) -> None:
    """(G9) there is no barrier: a member that is slow to give up delays only what it has to give up."""
    topic = await new_topic(cluster, 6)
    async with members_of(cluster, topic) as members:
        first = await members.join()
        await members.settled(first, partitions=6)
        go_on, holding = asyncio.Event(), asyncio.Event()

        async def hold_up(kind: str, gone: set[TopicPartition]) -> None:
            if kind == "revoked":
                holding.set()
                await go_on.wait()

        first.heard.before = hold_up
        second = await members.join()
        await holding.wait()
        kept = min(first.consumer.assignment() & first.owned)
        before = len(first.records)
        await write(cluster, topic, kept.partition, 20)
        await eventually(lambda: len(first.records) >= before + 20, what="a kept partition is read on")
        assert not second.owned
        go_on.set()
        await members.settled(first, second, partitions=6)


async def test_a_member_that_others_wait_for_is_named(cluster: MemoryCluster) -> None:
    topic = await new_topic(cluster, 4)
    async with (
        members_of(cluster, topic) as members,
        Admin(cluster.bootstrap, host=cluster.host) as admin,
    ):
        first = await members.join()
        await members.settled(first, partitions=4)
        go_on, holding = asyncio.Event(), asyncio.Event()

        async def hold_up(kind: str, gone: set[TopicPartition]) -> None:
            if kind == "revoked":
                holding.set()
                await go_on.wait()

        first.heard.before = hold_up
        second = await members.join()
        await holding.wait()
        view = await read_group(admin, members.group)
        slow, waiting = first.consumer.group_metadata().member_id, second.consumer.group_metadata().member_id
        assert (view.group.type, view.group.state, view.group.protocol) == (
            "consumer",
            "Reconciling",
            "uniform",
        )
        assert view.group.generation == view.group.target_epoch == 3
        assert view.group.reason == f"member {waiting} joined"
        assert [(member.member, len(member.revoking)) for member in view.waits_for] == [(slow, 2)]
        assert {member.member: len(member.owned) for member in view.members} == {slow: 4, waiting: 0}
        assert {len(member.assigned or ()) for member in view.members} == {2}
        go_on.set()
        await members.settled(first, second, partitions=4)
        view = await read_group(admin, members.group)
        assert not view.waits_for


async def test_partitions_that_are_added_are_read(cluster: MemoryCluster) -> None:
    topic = await new_topic(cluster, 2)
    async with members_of(cluster, topic) as members:
        first, second = await members.join(), await members.join()
        await members.settled(first, second, partitions=2)
        async with Admin(cluster.bootstrap, host=cluster.host) as admin:
            await admin.alter_topic(topic, partitions=4)
        await members.settled(first, second, partitions=4)


async def test_a_subscription_changes_and_only_what_changes_moves(cluster: MemoryCluster) -> None:
    one, other = await new_topic(cluster, 2), await new_topic(cluster, 2)
    async with members_of(cluster, one) as members:
        first = await members.join()
        await members.settled(first, partitions=2)
        first.consumer.subscribe([one, other], listener=first.heard)
        await members.settled(first, partitions=4)
        first.consumer.subscribe([other], listener=first.heard)
        await members.settled(first, partitions=2)
        assert {name.topic for name in first.owned} == {other}
        assert first.heard.kinds() == ["assigned", "assigned", "revoked"]


async def test_a_static_member_comes_back_to_its_partitions(cluster: MemoryCluster) -> None:
    """KIP-345: its place is kept, so the other member hears of nothing."""
    topic = await new_topic(cluster, 4)
    async with members_of(cluster, topic) as members:
        static, other = await members.join(group_instance_id="a"), await members.join()
        await members.settled(static, other, partitions=4)
        had, heard = static.owned, list(other.heard.events)
        await members.leave(static)
        again = await members.join(group_instance_id="a")
        await eventually(lambda: again.owned == had, what="it has its partitions again")
        assert other.heard.events == heard


async def test_an_assignor_that_the_coordinator_does_not_have_is_refused(cluster: MemoryCluster) -> None:
    async with Consumer(
        cluster.bootstrap,
        group_id=new_group(),
        group_protocol="consumer",
        group_remote_assignor="best",
        host=cluster.host,
    ) as consumer:
        consumer.subscribe([await new_topic(cluster, 1)])
        with pytest.raises(UnsupportedAssignor, match="best"):
            await consumer.getmany(timeout_ms=10_000)


async def test_a_rebalance_cannot_be_asked_for(cluster: MemoryCluster) -> None:
    topic = await new_topic(cluster, 1)
    async with members_of(cluster, topic) as members:
        first = await members.join()
        await members.settled(first, partitions=1)
        with pytest.raises(InvalidRequest, match="its coordinator assigns anew when"):
            first.consumer.enforce_rebalance("please")


async def test_offsets_are_committed_and_found_by_the_next_member(cluster: MemoryCluster) -> None:
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 5)
    async with members_of(cluster, topic) as members:
        first = await members.join()
        await eventually(lambda: len(first.records) == 5, what="it reads")
        await members.leave(first)
        await write(cluster, topic, 0, 1)
        second = await members.join()
        await eventually(lambda: second.records, what="the next one reads")
        assert [record.offset for record in second.records] == [5]
