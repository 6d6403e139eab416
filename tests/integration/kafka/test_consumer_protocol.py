"""Groups whose coordinator assigns (KIP-848), of librdkafka's consumers as they are, on a cluster of three
brokers."""

from __future__ import annotations

import pytest

from strandline import Admin, LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.groups.support.group_members import loading, new_topic
from tests.integration.groups.support.group_rpcs import GroupRpcs
from tests.integration.kafka.support.confluent_member import CONSUMER
from tests.integration.kafka.support.heard import LOST, REVOKED
from tests.integration.kafka.support.mixed_group import CONFLUENT, SETTLE_S, Member, MixedGroup
from tests.integration.support.harness import FAULT_SETTINGS
from tests.waiting import eventually

PARTITIONS = 6
SETTINGS = {**FAULT_SETTINGS, "group_consumer_heartbeat_interval_ms": 200}


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=3, broker_settings=SETTINGS, kafka=True)


def moved(group: MixedGroup, *members: Member) -> set[tuple[str, int]]:
    """The partitions that these were asked to give up."""
    given = [change.partitions for change in group.changes(*members) if change.event == REVOKED]
    return {(group.topic, number) for numbers in given for number in numbers}


async def test_partitions_move_to_members_that_join_and_from_those_that_leave(cluster: LocalCluster) -> None:
    """No partition has two owners, a member gives up what moves and no more, the next one reads on where the
    last one ended, and no record is lost or read twice."""
    topic = await new_topic(cluster, PARTITIONS, "assigned")
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        MixedGroup(cluster, topic, PARTITIONS) as group,
    ):
        first = group.join(CONFLUENT, CONSUMER)
        await group.settled(first)
        second, third = group.join(CONFLUENT, CONSUMER), group.join(CONFLUENT, CONSUMER)
        await group.settled(first, second, third)
        assert not moved(group, third) and len(first.heard.owned) == 2
        await eventually(lambda: second.places and third.places, deadline_s=SETTLE_S, what="all read")
        await group.leave(second)
        kept = set(third.heard.owned)
        await group.settled(first, third)
        assert not moved(group, third) and kept <= third.heard.owned
        await load.finish()
        assert set((await group.seen(load.acked)).values()) == {1}
        async with Admin(cluster.bootstrap) as admin:
            listed = [each for each in await admin.list_groups() if each.group == group.name]
        assert [(each.type, each.state) for each in listed] == [("consumer", "Stable")]
    assert group.findings() == []
    assert not [change for change in group.changes(*group.all) if change.event == LOST]
    assert [member.errors for member in group.all] == [[]] * 3


async def test_the_next_coordinator_goes_on(cluster: LocalCluster) -> None:
    """The state is read back from the log: no member has to join again, and none stops reading."""
    topic = await new_topic(cluster, PARTITIONS, "moved")
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        MixedGroup(cluster, topic, PARTITIONS) as group,
        GroupRpcs(cluster) as rpcs,
    ):
        members = [group.join(CONFLUENT, CONSUMER) for _ in range(2)]
        await group.settled(*members)
        before = [set(member.heard.owned) for member in members]
        coordinator = (await rpcs.coordinator(group.name)).id
        await cluster.kill_broker(coordinator)
        await rpcs.coordinator(group.name, other_than=coordinator)
        read = [len(member.places) for member in members]
        await eventually(
            lambda: all(len(m.places) > n + 50 for m, n in zip(members, read, strict=True)),
            deadline_s=SETTLE_S,
            what="both read on",
        )
        assert [set(member.heard.owned) for member in members] == before
        third = group.join(CONFLUENT, CONSUMER)
        await group.settled(*members, third)
        await cluster.start_broker(coordinator)
        await load.finish()
        await group.seen(load.acked)
    assert group.findings() == []
    assert not [change for change in group.changes(*group.all) if change.event == LOST]
