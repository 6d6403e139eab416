"""Groups that change their protocol while they read (KIP-848, online migration): librdkafka's consumers and
strandline's, as they are, on a cluster of three brokers."""

from __future__ import annotations

import pytest

from strandline import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.groups.support.group_members import loading, new_topic
from tests.integration.groups.support.group_rpcs import GroupRpcs
from tests.integration.kafka.support.confluent_member import CONSUMER
from tests.integration.kafka.support.heard import LOST
from tests.integration.kafka.support.mixed_group import (
    CONFLUENT,
    COOPERATIVE_STICKY,
    RANGE,
    SETTLE_S,
    STRANDLINE,
    Member,
    MixedGroup,
)
from tests.integration.support.harness import FAULT_SETTINGS
from tests.waiting import eventually

pytestmark = pytest.mark.slow

PARTITIONS = 6
MEMBERS = 2
SETTINGS = {**FAULT_SETTINGS, "group_consumer_heartbeat_interval_ms": 200}


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=3, broker_settings=SETTINGS, kafka=True)


async def roll(group: MixedGroup, members: list[Member], kinds: list[str], protocol: str) -> list[Member]:
    """Replaces the members one by one: the new one joins, then the old one leaves."""
    now = list(members)
    for old, kind in zip(members, kinds, strict=True):
        new = group.join(kind, protocol)
        await group.settled(*now, new)
        now = [*(member for member in now if member is not old), new]
        await group.leave(old)
        await group.settled(*now)
    return now


@pytest.mark.parametrize("kinds", [[CONFLUENT, CONFLUENT], [STRANDLINE, STRANDLINE], [CONFLUENT, STRANDLINE]])
@pytest.mark.parametrize("protocol", [RANGE, COOPERATIVE_STICKY])
async def test_an_application_changes_its_protocol_while_it_reads(
    cluster: LocalCluster, kinds: list[str], protocol: str
) -> None:
    """Up and down again, one member after the other: no partition has two readers, no record is lost, and
    none is handed out twice."""
    topic = await new_topic(cluster, PARTITIONS, "migrated")
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        MixedGroup(cluster, topic, PARTITIONS) as group,
    ):
        members = [group.join(kind, protocol) for kind in kinds]
        await group.settled(*members)
        assert (await group.described()).type == "classic"
        members = await roll(group, members, kinds, CONSUMER)
        found = await group.described()
        assert (found.type, found.state) == ("consumer", "Stable")
        members = await roll(group, members, kinds, protocol)
        assert (await group.described()).type == "classic"
        read = [len(member.places) for member in members]
        await eventually(
            lambda: all(len(m.places) > n for m, n in zip(members, read, strict=True)),
            deadline_s=SETTLE_S,
            what="all read on",
        )
        await load.finish()
        seen = await group.seen(load.acked)
        assert {place: count for place, count in seen.items() if count != 1} == {}
    assert group.findings() == []
    assert not [change for change in group.changes(*group.all) if change.event == LOST]
    assert [member.errors for member in group.all] == [[] for _ in group.all]


@pytest.mark.parametrize("kind", [CONFLUENT, STRANDLINE])
async def test_instances_come_back_by_the_other_protocol(cluster: LocalCluster, kind: str) -> None:
    """KIP-345: an instance keeps its partitions, though its next process speaks another protocol. A static
    member of the classic protocol does not say that it ends."""
    topic = await new_topic(cluster, PARTITIONS, "instances")
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        MixedGroup(cluster, topic, PARTITIONS) as group,
    ):
        members = [group.join(kind, RANGE, instance) for instance in ("one", "two")]
        await group.settled(*members)
        for protocol in (CONSUMER, RANGE):
            for number, instance in enumerate(("one", "two")):
                had = set(members[number].heard.owned)
                await group.leave(members[number])
                members[number] = group.join(kind, protocol, instance)
                await group.settled(*members)
                assert members[number].heard.owned == had
        assert (await group.described()).type == "classic"
        await load.finish()
        seen = await group.seen(load.acked)
        assert {place: count for place, count in seen.items() if count != 1} == {}
    assert group.findings() == []


async def test_the_next_coordinator_goes_on_with_members_of_both_kinds(cluster: LocalCluster) -> None:
    """The coordinator dies while the group has both: all read on, and the group goes on to either side."""
    topic = await new_topic(cluster, PARTITIONS, "mixed")
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        MixedGroup(cluster, topic, PARTITIONS) as group,
        GroupRpcs(cluster) as rpcs,
    ):
        classic = group.join(CONFLUENT, COOPERATIVE_STICKY)
        await group.settled(classic)
        consumer = group.join(STRANDLINE, CONSUMER)
        await group.settled(classic, consumer)
        coordinator = (await rpcs.coordinator(group.name)).id
        await cluster.kill_broker(coordinator)
        await rpcs.coordinator(group.name, other_than=coordinator)
        third = group.join(STRANDLINE, COOPERATIVE_STICKY)
        await group.settled(classic, consumer, third)
        await cluster.start_broker(coordinator)
        await group.leave(consumer)
        await group.settled(classic, third)
        assert (await group.described()).type == "classic"
        await load.finish()
        await group.seen(load.acked)
    assert group.findings() == []
