"""A topic grows in use: producers write to the new partitions, groups read them (KIP-429, trigger a)."""

from __future__ import annotations

import pytest

from strandline.testing import SimulatedCluster
from tests.integration.groups.support.group_members import Members, loading, new_topic
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

pytestmark = pytest.mark.strandline(seed=1)


@pytest.fixture
def cluster(simulated_cluster: SimulatedCluster) -> SimulatedCluster:
    return simulated_cluster


async def grow(cluster: SimulatedCluster, topic: str, partitions: int) -> None:
    async with cluster.admin() as admin:
        await admin.alter_topic(topic, partitions=partitions)


@on_virtual_time
@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
async def test_partitions_added_to_the_topic_of_a_live_group_are_read(
    cluster: SimulatedCluster, protocol: str
) -> None:
    """The leader notices and joins again; a member that has not heard of a new partition can be given it."""
    topic = await new_topic(cluster, 3)
    quick = {"rebalance_protocol": protocol, "topics_refresh_ms": 200}
    async with Members(cluster, [topic], **quick) as members:
        first, second = await members.join(), await members.join()
        await members.settled(first, second, partitions=3)
        await grow(cluster, topic, 7)
        await members.settled(first, second, partitions=7)
        async with loading(cluster, {topic: 7}) as load:
            await eventually(lambda: len(load.acked) > 100, what="something is written")
            await load.finish()
            written = load.acked
            assert {partition for _, partition, _ in written} == set(range(7))
            await eventually(lambda: sum(members.seen().values()) >= len(written), what="everything is read")
        assert members.seen() == dict.fromkeys(written, 1)
        assert [member.errors for member in members.all] == [[], []]


@on_virtual_time
async def test_a_running_producer_uses_partitions_that_are_added(cluster: SimulatedCluster) -> None:
    """By its number at once, and for records without a key after the next metadata request."""
    topic = await new_topic(cluster, 1)
    async with cluster.producer(metadata_max_age_ms=200) as producer:
        assert (await producer.send_and_wait(topic, b"v")).partition == 0
        await grow(cluster, topic, 3)
        assert (await producer.send_and_wait(topic, b"v", partition=2)).offset == 0
        reached = set()

        async def everywhere() -> bool:
            reached.add((await producer.send_and_wait(topic, b"v")).partition)
            return reached == {0, 1, 2}

        await eventually(everywhere, what="records without a key go to every partition")
