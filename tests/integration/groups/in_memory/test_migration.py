"""Consumers of both protocols in one group, with real brokers (KIP-848, online migration)."""

from __future__ import annotations

import asyncio

import pytest

from strandline import Admin, Consumer, TopicPartition
from strandline.consumer.described.reading import read_group
from strandline.errors import GroupIdNotFound
from strandline.testing import MemoryCluster
from strandline.vocabulary.groups import CLASSIC, CONSUMER
from tests.integration.groups.support.group_members import Members, loading, new_topic
from tests.waiting import eventually

EITHER = {"eager": {}, "cooperative": {"rebalance_protocol": "cooperative"}}
"""Classic members, by how they rebalance."""


@pytest.mark.parametrize("rebalance", ["eager", "cooperative"])
async def test_a_group_goes_up_and_down_while_it_reads(cluster: MemoryCluster, rebalance: str) -> None:
    """Each record is read once, and the group is described with what each member is."""
    topic = await new_topic(cluster, 6)
    async with (
        loading(cluster, {topic: 6}) as load,
        # With both kinds, members may be in different epochs for a while.
        Members(cluster, [topic], group_protocol=CONSUMER) as members,
        Admin(cluster.bootstrap, host=cluster.host) as admin,
    ):
        settings = {"group_protocol": CLASSIC, **EITHER[rebalance]}
        first = await members.join(**settings)
        await members.settled(first, partitions=6)
        second = await members.join()
        third = await members.join(**settings)
        await members.settled(first, second, third, partitions=6)
        view = await read_group(admin, members.group)
        by_client = {member.member: member.protocol for member in view.members}
        assert view.group.type == CONSUMER
        assert by_client == {
            first.consumer.group_metadata().member_id: CLASSIC,
            second.consumer.group_metadata().member_id: CONSUMER,
            third.consumer.group_metadata().member_id: CLASSIC,
        }
        await eventually(lambda: all(each.records for each in members.all), what="all members read")
        await members.leave(second)
        await members.settled(first, third, partitions=6)
        view = await read_group(admin, members.group)
        assert view.group.type == CLASSIC
        assert "the group is a classic one again" in view.group.reason or view.group.generation > 3
        await load.finish()
        written = len(load.acked)
        await eventually(lambda: sum(members.seen().values()) >= written, what="everything is read")
        assert members.seen() == dict.fromkeys(load.acked, 1)
        assert [member.errors for member in members.all] == [[], [], []]


async def test_a_cooperative_member_reads_on_while_the_group_changes(cluster: MemoryCluster) -> None:
    """What stays with a member is read while it joins again, and while it gives the rest up."""
    topic = await new_topic(cluster, 6)
    async with (
        loading(cluster, {topic: 6}),
        Members(cluster, [topic], group_protocol=CONSUMER) as members,
    ):
        first = await members.join(group_protocol=CLASSIC, rebalance_protocol="cooperative")
        await members.settled(first, partitions=6)
        go_on, holding = asyncio.Event(), asyncio.Event()

        async def hold_up(kind: str, gone: set[TopicPartition]) -> None:
            if kind == "revoked":
                holding.set()
                await go_on.wait()

        first.heard.before = hold_up
        second = await members.join()
        await holding.wait()
        read = len(first.records)
        await eventually(lambda: len(first.records) > read + 20, what="kept partitions are read on")
        assert not second.owned
        go_on.set()
        await members.settled(first, second, partitions=6)


async def test_where_groups_keep_their_protocol_the_member_is_refused() -> None:
    """`group_consumer_migration_policy = disabled`: the consumer hears it in its get calls."""
    async with MemoryCluster(
        brokers=1, broker_settings={"group_consumer_migration_policy": "disabled"}
    ) as cluster:
        async with Admin(cluster.bootstrap, host=cluster.host) as admin:
            await admin.create_topic("t", partitions=1, replication_factor=1)
        async with Members(cluster, ["t"]) as members:
            first = await members.join()
            await members.settled(first, partitions=1)
            async with Consumer(
                cluster.bootstrap, group_id=members.group, group_protocol=CONSUMER, host=cluster.host
            ) as consumer:
                consumer.subscribe(["t"])
                with pytest.raises(GroupIdNotFound, match="not of the consumer protocol"):
                    await consumer.getmany(timeout_ms=10_000)
            assert first.errors == []
