"""A coordinator that dies, hangs or hands over: its groups continue elsewhere, in their generation.

On virtual time: what members see is decided by brokers and their sessions, and a process adds nothing to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from strandline import Consumer
from strandline.adapters.codecs import groups as group_wire
from strandline.ids import TopicPartition
from strandline.testing import SimulatedCluster
from strandline.vocabulary.groups import CommittedOffset, OffsetCommit
from tests.integration.groups.support.group_members import SETTLE_S, Members, loading, new_topic
from tests.integration.groups.support.group_rpcs import NOT_NOW, GroupRpcs, Member, stable
from tests.integration.support.harness import FAULT_SETTINGS
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

SETTINGS = {**FAULT_SETTINGS, "group_initial_rebalance_delay_ms": 0, "offsets_topic_partitions": 3}
ORDERS = TopicPartition("orders", 0)
PARTITIONS = 4

pytestmark = pytest.mark.strandline(seed=1, broker_settings=SETTINGS)


@asynccontextmanager
async def orders(cluster: SimulatedCluster) -> AsyncIterator[GroupRpcs]:
    """A topic whose offsets are committed, and calls to the brokers."""
    await cluster.create_topic("orders", partitions=2)
    async with GroupRpcs(cluster) as rpcs:
        yield rpcs


@on_virtual_time
async def test_a_coordinator_that_hangs_and_wakes_commits_nothing_in_its_old_epoch(
    cluster: SimulatedCluster,
) -> None:
    """CORRECTNESS E1, G1: another coordinates meanwhile; what the old one is asked then it cannot commit."""
    async with orders(cluster) as rpcs:
        member = Member(rpcs, "hung")
        await stable([member])
        before = await rpcs.coordinator("hung")
        old_address = member.address
        cluster.pause(before.id)
        after = await rpcs.coordinator("hung", other_than=before.id)
        request = OffsetCommit("hung", member.member, member.generation, {ORDERS: CommittedOffset(10)})
        results = await rpcs.asked("hung", group_wire.OFFSET_COMMIT, request)
        assert results == {ORDERS: None}
        cluster.resume(before.id)
        stale = OffsetCommit("hung", member.member, member.generation, {ORDERS: CommittedOffset(3)})
        with pytest.raises(NOT_NOW):
            await rpcs.call(old_address, group_wire.OFFSET_COMMIT, stale, timeout_s=10)
        member.address = after.address
        committed = (await member.committed())[ORDERS]
        assert committed is not None and committed.offset == 10


@on_virtual_time
async def test_members_outlive_their_coordinator(cluster: SimulatedCluster) -> None:
    """CORRECTNESS G12, G13: its death costs a reload, not the group: same members, same generation, no
    acknowledged offset is lost, and commits continue."""
    topic = await new_topic(cluster, PARTITIONS)
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        Members(cluster, [topic], rebalance_protocol="cooperative", session_timeout_ms=10_000) as members,
    ):
        one, two = await members.join(), await members.join()
        await members.settled(one, two, partitions=PARTITIONS)
        before = [member.consumer.group_metadata() for member in (one, two)]
        cluster.kill(cluster.coordinator(members.group))
        read = [len(one.records), len(two.records)]
        names = [min(member.owned) for member in (one, two)]
        async with cluster.consumer(group_id=members.group) as looker:
            offsets = [await _committed(looker, *name) for name in names]

            async def going_on() -> bool:
                now = [await _committed(looker, *name) for name in names]
                return all(new > old for new, old in zip(now, offsets, strict=True))

            await eventually(going_on, deadline_s=SETTLE_S, what="both commit to the next coordinator")
        await eventually(
            lambda: len(one.records) > read[0] and len(two.records) > read[1],
            deadline_s=SETTLE_S,
            what="both read on",
        )
        assert [member.consumer.group_metadata() for member in (one, two)] == before
        assert one.heard.kinds() + two.heard.kinds() == ["assigned"] * 2
        await load.finish()
        await eventually(lambda: set(load.acked) <= set(members.seen()), what="all is read")
        assert set(members.seen().values()) == {1}
        assert [one.errors, two.errors] == [[], []]


async def _committed(consumer: Consumer, topic: str, partition: int) -> int:
    found = await consumer.committed(TopicPartition(topic, partition))
    return -1 if found is None else found.offset
