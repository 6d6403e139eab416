"""Members whose coordinator assigns, on virtual time: how fast partitions move, and over deaths (KIP-848)."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from strandline.testing import SimulatedCluster
from tests.integration.groups.support.group_members import SETTLE_S, Members, loading, new_topic
from tests.integration.support.harness import FAULT_SETTINGS
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

SETTINGS = {**FAULT_SETTINGS, "offsets_topic_partitions": 3}
AT_ONCE_S: Final = 1.0
"""Less than the interval of heartbeats, 5 s: what takes no longer was not found with the next one."""

pytestmark = pytest.mark.strandline(seed=1, broker_settings=SETTINGS)


@on_virtual_time
async def test_a_partition_that_moves_is_heard_of_before_the_next_heartbeat(
    cluster: SimulatedCluster,
) -> None:
    topic = await new_topic(cluster, 4)
    async with Members(cluster, [topic], group_protocol="consumer") as members:
        first = await members.join()
        await members.settled(first, partitions=4)
        async with asyncio.timeout(AT_ONCE_S):
            second = await members.join()
            await members.settled(first, second, partitions=4)
        async with asyncio.timeout(AT_ONCE_S):
            await members.leave(second)
            await members.settled(first, partitions=4)


@on_virtual_time
async def test_members_outlive_their_coordinator(cluster: SimulatedCluster) -> None:
    """Its death costs a reload, not the group: no member gives anything up, and nothing is read twice."""
    topic = await new_topic(cluster, 4)
    async with (
        loading(cluster, {topic: 4}) as load,
        Members(cluster, [topic], group_protocol="consumer") as members,
    ):
        one, two = await members.join(), await members.join()
        await members.settled(one, two, partitions=4)
        cluster.kill(cluster.coordinator(members.group))
        read = [len(one.records), len(two.records)]
        await eventually(
            lambda: len(one.records) > read[0] and len(two.records) > read[1],
            deadline_s=SETTLE_S,
            what="both read on",
        )
        three = await members.join()
        await members.settled(one, two, three, partitions=4)
        await load.finish()
        await eventually(lambda: set(load.acked) <= set(members.seen()), what="all is read")
        assert set(members.seen().values()) == {1}
        assert [member.errors for member in members.all] == [[], [], []]
        assert "lost" not in one.heard.kinds() + two.heard.kinds()
