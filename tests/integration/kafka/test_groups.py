"""Groups of one Kafka client each, as it is, on a cluster of three brokers."""

from __future__ import annotations

from collections import Counter

import pytest

from strandline import Admin, LocalCluster, Producer
from tests.conftest import ClusterFactory
from tests.integration.groups.support.group_members import loading, new_topic
from tests.integration.kafka.support.heard import LOST, REVOKED
from tests.integration.kafka.support.kcat import kcat, needs_kcat
from tests.integration.kafka.support.mixed_group import (
    AIOKAFKA,
    CONFLUENT,
    COOPERATIVE_STICKY,
    KAFKA_PYTHON,
    RANGE,
    ROUNDROBIN,
    SETTLE_S,
    MixedGroup,
)
from tests.integration.support.harness import FAULT_SETTINGS
from tests.waiting import eventually

PARTITIONS = 6


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=3, broker_settings=FAULT_SETTINGS, kafka=True)


@pytest.mark.parametrize(
    ("kind", "assignor"),
    [
        (AIOKAFKA, RANGE),
        (CONFLUENT, RANGE),
        (CONFLUENT, ROUNDROBIN),
        (CONFLUENT, COOPERATIVE_STICKY),
        (KAFKA_PYTHON, RANGE),
        (KAFKA_PYTHON, COOPERATIVE_STICKY),
    ],
)
async def test_partitions_move_to_members_that_join_and_from_those_that_leave(
    cluster: LocalCluster, kind: str, assignor: str
) -> None:
    """CORRECTNESS G12, G15: no partition has two owners, a cooperative member revokes what moves and no more
    (KIP-429), the next member reads on where the last one ended, and no record is lost."""
    topic = await new_topic(cluster, PARTITIONS, "kafka")
    async with (
        loading(cluster, {topic: PARTITIONS}) as load,
        MixedGroup(cluster, topic, PARTITIONS) as group,
    ):
        first = group.join(kind, assignor)
        await group.settled(first)
        second = group.join(kind, assignor)
        await group.settled(first, second)
        if assignor == COOPERATIVE_STICKY:
            revoked = [change.partitions for change in group.changes(first) if change.event == REVOKED]
            moved = {(topic, number) for numbers in revoked for number in numbers}
            assert moved == second.heard.owned
        await eventually(lambda: second.places, deadline_s=SETTLE_S, what="the second reads too")
        await group.leave(second)
        await group.settled(first)
        await group.leave(first)
        third = group.join(kind, assignor)
        await group.settled(third)
        await eventually(lambda: third.places, deadline_s=SETTLE_S, what="the third reads on")
        await load.finish()
        seen = await group.seen(load.acked)
        if kind != KAFKA_PYTHON:  # it does not commit when it gives a partition up
            assert set(seen.values()) == {1}
    assert group.findings() == []
    assert not [change for change in group.changes(*group.all) if change.event == LOST]
    assert [member.errors for member in group.all] == [[]] * 3


@needs_kcat
async def test_kcat_reads_in_a_group(cluster: LocalCluster) -> None:
    topic = await new_topic(cluster, PARTITIONS, "by-kcat")
    values = [str(number).encode() for number in range(60)]
    async with Producer(cluster.bootstrap) as producer:
        for number, value in enumerate(values):
            await producer.send_and_wait(topic, value, partition=number % PARTITIONS)
    of_group = ("-b", cluster.kafka_bootstrap, "-G", topic, "-X", "auto.offset.reset=earliest")
    found = await kcat(*of_group, "-q", "-c", "60", topic, within_s=SETTLE_S)
    assert Counter(line.encode() for line in found.splitlines()) == Counter(values)
    async with Admin(cluster.bootstrap) as admin:
        committed = await admin.group_offsets(topic)
    assert {name.partition: each.offset for name, each in committed.items()} == dict.fromkeys(
        range(PARTITIONS), 10
    )
