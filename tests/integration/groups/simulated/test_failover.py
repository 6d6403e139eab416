"""A coordinator that dies, hangs or hands over: its groups continue elsewhere, in their generation.

On virtual time: what members see is decided by brokers and their sessions, and a process adds nothing to it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from strandline import Consumer
from strandline.adapters.codecs import groups as group_wire
from strandline.errors import OutcomeUnknown, RebalanceInProgress
from strandline.ids import TopicPartition
from strandline.testing import SimulatedCluster
from strandline.vocabulary.groups import CommittedOffset, OffsetCommit
from tests.integration.groups.support.group_members import SETTLE_S, Members, loading, new_topic
from tests.integration.groups.support.group_rpcs import NOT_NOW, GroupRpcs, Member, stable
from tests.integration.support.harness import FAULT_SETTINGS, SESSION_TIMEOUT_MS
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


async def commit_until(rpcs: GroupRpcs, member: Member, stop: asyncio.Event) -> int:
    """Commit 1, 2, 3, …, each until it is acknowledged; returns the last acknowledged."""
    offset = 0
    while not stop.is_set():
        try:
            results = await member.commit({ORDERS: offset + 1})
        except NOT_NOW:
            member.address = ""
            continue
        assert results == {ORDERS: None}
        offset += 1
    return offset


async def beat_until(member: Member, stop: asyncio.Event) -> None:
    """As a member does: every error but a missing coordinator is raised."""
    while not stop.is_set():
        try:
            await member.heartbeat(max_wait_ms=100)
        except NOT_NOW:
            member.address = ""


async def survives(rpcs: GroupRpcs, members: Sequence[Member], generation: int) -> None:
    """The members are what they were, and so is what they were assigned."""
    described = await rpcs.asked(members[0].group, group_wire.DESCRIBE_GROUP, members[0].group)
    assert (described.state, described.generation) == ("Stable", generation)
    assert {m.member: m.assignment for m in described.members} == {
        member.member: member.member.encode() for member in members
    }


@on_virtual_time
async def test_a_coordinator_that_is_killed_hands_its_groups_over_as_they_are(
    cluster: SimulatedCluster,
) -> None:
    """CORRECTNESS G12, G13: no new generation, no member lost, no acknowledged offset lost."""
    async with orders(cluster) as rpcs:
        members = [Member(rpcs, "killed") for _ in range(3)]
        generation = await stable(members)
        before = await rpcs.coordinator("killed")
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            committing = tasks.create_task(commit_until(rpcs, members[0], stop))
            for member in members[1:]:
                tasks.create_task(beat_until(member, stop))
            await members[0].heartbeat()
            cluster.kill(before.id)
            after = await rpcs.coordinator("killed", other_than=before.id)
            await survives(rpcs, members, generation)
            stop.set()
        assert after.id != before.id
        for member in members:
            member.address = after.address
            await member.heartbeat()
        committed = (await members[0].committed())[ORDERS]
        # The next one may have been written without its answer having come.
        assert committed is not None and committed.offset in (committing.result(), committing.result() + 1)
        assert committing.result() > 0


@on_virtual_time
async def test_groups_survive_the_death_of_every_broker_in_turn(cluster: SimulatedCluster) -> None:
    """Each load reads what the coordinators before it wrote."""
    async with orders(cluster) as rpcs:
        members = [Member(rpcs, "in-turn") for _ in range(2)]
        generation = await stable(members)
        for number in range(3):
            coordinator = await rpcs.coordinator("in-turn")
            await members[0].find()
            await members[0].commit({ORDERS: number})
            cluster.kill(coordinator.id)
            await rpcs.coordinator("in-turn", other_than=coordinator.id)
            await survives(rpcs, members, generation)
            cluster.start(coordinator.id)
            await cluster.run_until(cluster.is_whole)
        await members[0].find()
        committed = (await members[0].committed())[ORDERS]
        assert committed is not None and committed.offset == 2


@on_virtual_time
async def test_a_coordinator_that_shuts_down_redirects_its_members(cluster: SimulatedCluster) -> None:
    """The old one answers a held heartbeat, instead of a broken connection, and the next one continues."""
    async with orders(cluster) as rpcs:
        members = [Member(rpcs, "handed") for _ in range(2)]
        generation = await stable(members)
        before = await rpcs.coordinator("handed")
        async with asyncio.TaskGroup() as tasks:
            held = tasks.create_task(answered(members[0]))
            await members[1].heartbeat()
            cluster.stop(before.id)
            error = await held
        assert isinstance(error, NOT_NOW)
        assert not isinstance(error, OutcomeUnknown), error
        await survives(rpcs, members, generation)


async def answered(member: Member) -> Exception | None:
    try:
        await member.heartbeat(max_wait_ms=9_000)
    except Exception as error:
        return error
    return None


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
async def test_a_rebalance_that_is_under_way_when_the_coordinator_dies_is_finished_elsewhere(
    cluster: SimulatedCluster,
) -> None:
    """The members join again, at the next coordinator, and every one of them is in its next generation."""
    async with orders(cluster) as rpcs:
        members = [Member(rpcs, "half-way") for _ in range(3)]
        generation = await stable(members[:2])
        before = await rpcs.coordinator("half-way")
        async with asyncio.TaskGroup() as tasks:
            joining = tasks.create_task(answered_join(members[2]))
            with pytest.raises(RebalanceInProgress):
                while True:
                    await members[0].heartbeat(max_wait_ms=100)
            cluster.kill(before.id)
            assert isinstance(await joining, NOT_NOW)
        await rpcs.coordinator("half-way", other_than=before.id)
        for member in members:
            member.address = ""
        members[2].member = ""  # the next coordinator does not know members that were about to join
        assert await stable(members) > generation


async def answered_join(member: Member) -> Exception | None:
    """The error of one held join."""
    await member.find()
    given = await member.rpcs.call(member.address, group_wire.JOIN_GROUP, member.join_request())
    member.member = given.member
    try:
        await member.rpcs.call(member.address, group_wire.JOIN_GROUP, member.join_request())
    except Exception as error:
        return error
    return None


@on_virtual_time
async def test_groups_continue_while_zookeeper_is_away(cluster: SimulatedCluster) -> None:
    """Past every session's timeout; there is no other coordinator while all replicas still
    follow."""
    async with orders(cluster) as rpcs:
        members = [Member(rpcs, "alone") for _ in range(2)]
        generation = await stable(members)
        await rpcs.coordinator("alone")
        clock = cluster.host.clock
        cluster.cut("controllers", "zookeeper")
        for broker in cluster.broker_ids:
            cluster.cut(broker, "zookeeper")
        until = clock.monotonic() + 2 * SESSION_TIMEOUT_MS / 1000
        offsets = itertools.count(1)
        try:
            while clock.monotonic() < until:
                for member in members:
                    await member.heartbeat(max_wait_ms=50)
                assert await members[0].commit({ORDERS: next(offsets)}) == {ORDERS: None}
            assert (await rpcs.coordinator("alone")).address == members[0].address
        finally:
            cluster.heal()
        await cluster.run_until(cluster.is_whole)
        await survives(rpcs, members, generation)
        await members[0].find()
        committed = (await members[0].committed())[ORDERS]
        assert committed is not None and committed.offset == next(offsets) - 1


@on_virtual_time
async def test_members_outlive_their_coordinator(cluster: SimulatedCluster) -> None:
    """Its death costs a reload, not the group: same members, same generation, and commits continue."""
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
