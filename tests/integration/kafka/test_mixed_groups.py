"""One group of strandline's consumers and Kafka clients, on a cluster of three brokers: either side leads,
members come and go (docs/use/kafka.md; CORRECTNESS G2, G17)."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from strandline import Admin, LocalCluster, TopicPartition
from tests.conftest import ClusterFactory
from tests.integration.groups.support.group_members import loading, new_topic
from tests.integration.groups.support.group_processes import MODULE as PROCESS
from tests.integration.groups.support.group_processes import processes
from tests.integration.kafka.support.heard import LOST, REVOKED
from tests.integration.kafka.support.mixed_group import (
    AIOKAFKA,
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
CONFLUENT_PROCESS = "tests.integration.kafka.support.confluent_process"


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=3, broker_settings=FAULT_SETTINGS, kafka=True)


def check(group: MixedGroup) -> None:
    """No partition had two owners; no member heard something out of turn, lost anything or failed."""
    assert group.findings() == []
    assert [member.errors for member in group.all] == [[] for _ in group.all]
    assert not [change for change in group.changes(*group.all) if change.event == LOST]


@pytest.mark.parametrize("first", [STRANDLINE, CONFLUENT, AIOKAFKA])
async def test_three_kinds_of_clients_share_a_topic(cluster: LocalCluster, first: str) -> None:
    """They meet on `range`, which all of them have, and the first one leads. librdkafka's consumer starved
    under a leader that took it for a cooperative member."""
    topic = await new_topic(cluster, PARTITIONS, "mixed")
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        MixedGroup(cluster, topic, PARTITIONS) as group,
    ):
        members = [group.join(first)]
        await group.settled(*members)
        assert await group.leader() == members[0].heard.name
        for kind in sorted({STRANDLINE, CONFLUENT, AIOKAFKA} - {first}):
            members.append(group.join(kind))
            await group.settled(*members)
        assert (await group.described()).protocol == RANGE
        assert await group.leader() == members[0].heard.name
        await load.finish()
        seen = await group.seen(load.acked)
        assert set(seen.values()) == {1}
        # The leader goes, and a member of another kind leads from then on.
        await group.leave(members[0])
        await group.settled(*members[1:])
        assert await group.leader() in {member.heard.name for member in members[1:]}
    check(group)


@pytest.mark.parametrize("first", [STRANDLINE, CONFLUENT])
async def test_a_cooperative_group_moves_what_has_to_move(cluster: LocalCluster, first: str) -> None:
    """KIP-429 as released, from either leader: a member that joins takes its share and no more is revoked;
    one that leaves takes nothing from the others; every record is handed out once."""
    second = CONFLUENT if first == STRANDLINE else STRANDLINE
    topic = await new_topic(cluster, PARTITIONS, "mixed")
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        MixedGroup(cluster, topic, PARTITIONS) as group,
    ):
        members: list[Member] = []
        for kind in (first, second, first):
            kept = {member: member.heard.owned for member in members}
            members.append(group.join(kind, COOPERATIVE_STICKY))
            await group.settled(*members)
            for member, owned in kept.items():
                assert member.heard.owned < owned, "it gave some up, and took none"
        assert (await group.described()).protocol == COOPERATIVE_STICKY
        assert await group.leader() == members[0].heard.name
        revoked = [change for change in group.changes(*members) if change.event == REVOKED]
        assert sum(len(change.partitions) for change in revoked) == PARTITIONS // 2 + PARTITIONS // 3
        for gone in (members[1], members[0]):
            members.remove(gone)
            kept = {member: member.heard.owned for member in members}
            await group.leave(gone)
            await group.settled(*members)
            assert all(member.heard.owned > owned for member, owned in kept.items())
        await load.finish()
        assert set((await group.seen(load.acked)).values()) == {1}
    check(group)


EAGER, COOPERATIVE = (STRANDLINE, RANGE), (STRANDLINE, COOPERATIVE_STICKY)
THERE_AND_BACK = (EAGER, COOPERATIVE, EAGER, (CONFLUENT, RANGE))
"""By way of strandline's eager members, which meet Kafka's on `range`."""
TO_ANOTHER_PROTOCOL = (EAGER, COOPERATIVE, (CONFLUENT, COOPERATIVE_STICKY), COOPERATIVE)
"""librdkafka's consumers cannot change the protocol of a live group by themselves."""


@pytest.mark.parametrize("bounces", [THERE_AND_BACK, TO_ANOTHER_PROTOCOL], ids=["back", "on"])
async def test_a_live_group_moves_to_strandlines_consumers_and_back(
    cluster: LocalCluster, bounces: tuple[tuple[str, str], ...]
) -> None:
    """docs/use/kafka.md: the members are replaced one by one under load, from Kafka's on `range` to
    strandline's cooperative ones, and back. Nothing is lost, and nothing is handed out twice."""
    topic = await new_topic(cluster, PARTITIONS, "mixed")
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        MixedGroup(cluster, topic, PARTITIONS) as group,
    ):
        members = [group.join(CONFLUENT, RANGE) for _ in range(3)]
        await group.settled(*members)
        for kind, assignor in bounces:
            for old in list(members):
                await group.leave(old)
                members.remove(old)
                members.append(group.join(kind, assignor))
                await group.settled(*members, even=False)
            await group.settled(*members)
            expected = "sticky" if kind == STRANDLINE else assignor
            assert (await group.described()).protocol == expected, "strandline's members use their own"
        await load.finish()
        assert set((await group.seen(load.acked)).values()) == {1}
    check(group)


@pytest.mark.parametrize("assignor", [RANGE, COOPERATIVE_STICKY])
async def test_a_consumer_takes_the_place_of_a_static_kafka_client(
    cluster: LocalCluster, assignor: str
) -> None:
    """KIP-345: under its instance's name it gets the client's partitions, in the same generation, and a Kafka
    client gets them back from it."""
    topic = await new_topic(cluster, PARTITIONS, "mixed")
    async with MixedGroup(cluster, topic, PARTITIONS) as group:
        leader = group.join(CONFLUENT, assignor, "one")
        await group.settled(leader)
        other = group.join(CONFLUENT, assignor, "two")
        await group.settled(leader, other)
        generation, heard = (await group.described()).generation, len(leader.heard.changes)
        for kind in (STRANDLINE, CONFLUENT):
            had = other.heard.owned
            await group.leave(other)
            other = group.join(kind, assignor, "two")
            await group.settled(leader, other)
            assert other.heard.owned == had
        assert (await group.described()).generation == generation
        assert len(leader.heard.changes) == heard, "it noticed nothing"
    check(group)


@pytest.mark.parametrize(("assignor", "killed"), [(RANGE, CONFLUENT), (COOPERATIVE_STICKY, STRANDLINE)])
async def test_a_member_that_is_killed_loses_no_record(
    cluster: LocalCluster, assignor: str, killed: str, tmp_path: Path
) -> None:
    """A member of the other kind takes over at the committed offsets: nothing is lost, and only records that
    were not committed are handed out again."""
    topic = await new_topic(cluster, PARTITIONS, "mixed")
    module = PROCESS if killed == STRANDLINE else CONFLUENT_PROCESS
    protocol = "eager" if assignor == RANGE else "cooperative"
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        MixedGroup(cluster, topic, PARTITIONS) as group,
        processes(cluster, topic, group.name, tmp_path, rebalance_protocol=protocol) as others,
    ):
        stays = group.join(CONFLUENT if killed == STRANDLINE else STRANDLINE, assignor)
        await group.settled(stays)
        settings = {} if killed == STRANDLINE else {"assignor": assignor}
        victim = await others.start(module, **settings)
        half = PARTITIONS // 2
        await eventually(
            lambda: (
                len(victim.owned) == half and len(stays.heard.owned) == half and len(victim.seen()) > half
            ),
            deadline_s=SETTLE_S,
            what="each has half of the partitions, and the victim read some",
        )
        had = victim.owned
        victim.signal(signal.SIGKILL)
        _ = await victim.ended()
        async with Admin(cluster.bootstrap) as admin:
            committed = await admin.group_offsets(group.name)
        await group.settled(stays)
        await load.finish()
        again = Counter({(topic, *place): many for place, many in victim.seen().items()})
        written = set(load.acked) - set(again)
        seen = await group.seen(written) + again
        assert set(load.acked) <= set(seen)
        for (_, partition, offset), many in seen.items():
            at = committed.get(TopicPartition(topic, partition))
            assert many == 1 or (partition in had and (at is None or offset >= at.offset))
    check(group)


@pytest.mark.parametrize(
    ("assignor", "kinds"),
    [(RANGE, (CONFLUENT, STRANDLINE, AIOKAFKA)), (COOPERATIVE_STICKY, (STRANDLINE, CONFLUENT, STRANDLINE))],
    ids=[RANGE, COOPERATIVE_STICKY],
)
async def test_the_members_of_both_kinds_survive_their_coordinator(
    cluster: LocalCluster, assignor: str, kinds: tuple[str, ...]
) -> None:
    """The next coordinator continues with their generation: nothing is lost, no partition has two owners, and
    the group takes a new member in."""
    topic = await new_topic(cluster, PARTITIONS, "mixed")
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        MixedGroup(cluster, topic, PARTITIONS) as group,
    ):
        members = [group.join(kind, assignor) for kind in kinds]
        await group.settled(*members)
        async with Admin(cluster.bootstrap) as admin:
            dead = (await admin.describe_group(group.name)).coordinator.id
        await cluster.kill_broker(dead)
        try:
            written = len(load.acked)
            members.append(group.join(CONFLUENT, assignor))
            await group.settled(*members)
            await load.finish()
            assert len(load.acked) > written
            _ = await group.seen(load.acked)
        finally:
            await cluster.start_broker(dead)
    assert group.findings() == []
