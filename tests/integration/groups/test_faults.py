"""Members that are killed, that hang, and whose connection ends, as processes (docs/use/groups.md)."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from strandline import Consumer, LocalCluster, TopicPartition
from strandline.adapters.codecs import groups as group_wire
from strandline.errors import RebalanceInProgress
from strandline.vocabulary.groups import MemberIdGiven
from tests.integration.groups.support.group_members import (
    GROUP_SETTINGS,
    SETTLE_S,
    loading,
    new_group,
    new_topic,
)
from tests.integration.groups.support.group_processes import Processes, processes
from tests.integration.groups.support.group_rpcs import GroupRpcs, Member, stable
from tests.waiting import eventually

pytestmark = pytest.mark.slow

PARTITIONS = 4
SESSION_S = GROUP_SETTINGS["session_timeout_ms"] / 1000


async def all_owned(members: Processes, *indices: int) -> None:
    """Return once these members have all partitions between them."""
    everything = set(range(PARTITIONS))

    def shared() -> bool:
        owned = [members.all[index].owned for index in indices]
        return set().union(*owned) == everything and sum(map(len, owned)) == PARTITIONS and all(owned)

    await eventually(shared, deadline_s=SETTLE_S + SESSION_S, what=f"members {indices} share everything")


async def test_a_member_that_is_killed_loses_no_record(cluster: LocalCluster, tmp_path: Path) -> None:
    """At least once: its uncommitted records are read by the members that get its partitions. The simulation
    kills members of every protocol (`lab/strandline_lab/simulation/workloads/groups.py`)."""
    topic = await new_topic(cluster, PARTITIONS)
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        processes(cluster, topic, new_group(), tmp_path, rebalance_protocol="cooperative") as members,
    ):
        for _ in range(3):
            _ = await members.start()
        await all_owned(members, 0, 1, 2)
        victim = members.all[1]
        await eventually(victim.seen, what="the victim has read")
        victim.signal(signal.SIGKILL)
        _ = await victim.ended()
        await all_owned(members, 0, 2)
        await load.finish()
        written = {(partition, offset) for _, partition, offset in load.acked}
        await eventually(lambda: written <= set(members.seen()), deadline_s=SETTLE_S, what="all is read")
        assert [member.printed[-1]["event"] for member in (members.all[0], members.all[2])] == ["records"] * 2


async def test_a_member_that_was_paused_past_its_session_commits_nothing(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """(G1) it wakes up outside the group: its partitions are lost, not revoked, and no offset goes back."""
    topic = await new_topic(cluster, PARTITIONS)
    group = new_group()
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        processes(cluster, topic, group, tmp_path, rebalance_protocol="cooperative") as members,
    ):
        for _ in range(2):
            _ = await members.start()
        await all_owned(members, 0, 1)
        sleeper, other = members.all
        await eventually(sleeper.seen, what="the sleeper has read")
        sleeper.signal(signal.SIGSTOP)
        had = set(sleeper.owned)
        await eventually(
            lambda: len(other.owned) == PARTITIONS, deadline_s=SETTLE_S, what="the other has all"
        )
        read_up_to = {partition: _next(other.seen(), partition) for partition in had}
        await eventually(
            lambda: all(_next(other.seen(), partition) > read_up_to[partition] + 5 for partition in had),
            what="the other reads on from there",
        )
        before = len(sleeper.printed)
        async with Consumer(cluster.bootstrap, group_id=group) as looker:
            committed = {partition: await _committed(looker, topic, partition) for partition in had}
            sleeper.signal(signal.SIGCONT)
            await all_owned(members, 0, 1)
            after = {partition: await _committed(looker, topic, partition) for partition in had}
        assert all(after[partition] >= committed[partition] for partition in had), (committed, after)
        events = [event["event"] for event in sleeper.printed[before:] if event["event"] != "records"]
        assert events[:2] == ["lost", "assigned"], events
        assert "heartbeat refused" in sleeper.log or "commit refused" in sleeper.log
        await load.finish()
        written = {(partition, offset) for _, partition, offset in load.acked}
        await eventually(lambda: written <= set(members.seen()), deadline_s=SETTLE_S, what="all is read")


def _next(seen: dict[tuple[int, int], int], partition: int) -> int:
    return max((offset for place, offset in seen if place == partition), default=-1) + 1


async def _committed(consumer: Consumer, topic: str, partition: int) -> int:
    found = await consumer.committed(TopicPartition(topic, partition))
    return -1 if found is None else found.offset


async def test_a_client_that_vanishes_while_its_join_is_held_is_forgotten(cluster: LocalCluster) -> None:
    """gRPC cancels its call, the others wait for it no longer than the rebalance timeout, and continue."""
    group = new_group()
    async with GroupRpcs(cluster) as rpcs, GroupRpcs(cluster) as others:
        first = Member(rpcs, group, rebalance_timeout_ms=300, session_timeout_ms=600)
        await stable([first])
        vanishing = Member(others, group, rebalance_timeout_ms=300, session_timeout_ms=600)
        await vanishing.find()
        given = await others.call(vanishing.address, group_wire.JOIN_GROUP, vanishing.join_request())
        assert isinstance(given, MemberIdGiven)
        vanishing.member = given.member
        async with asyncio.TaskGroup() as tasks:
            held = tasks.create_task(_raised(vanishing.join()))
            assert isinstance(await _raised(first.heartbeat(max_wait_ms=9_000)), RebalanceInProgress)
            held.cancel()
        generation = await stable([first])

        async def alone() -> bool:
            return [m.member for m in (await first.described()).members] == [first.member]

        await eventually(alone)
        await stable([first])
        assert generation >= 2
        name = TopicPartition(await new_topic(cluster, 1), 0)
        assert await first.commit({name: 1}) == {name: None}


async def _raised(awaited: Any) -> BaseException | None:
    try:
        await awaited
    except Exception as error:
        return error
    return None
