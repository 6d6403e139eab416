"""A group of strandline's consumers and Kafka clients whose coordinator dies (docs/use/kafka.md; CORRECTNESS
G2, G17)."""

from __future__ import annotations

import pytest

from strandline import Admin
from tests.conftest import ClusterFactory
from tests.integration.groups.support.group_members import loading, new_topic
from tests.integration.kafka.support.mixed_group import (
    AIOKAFKA,
    CONFLUENT,
    COOPERATIVE_STICKY,
    RANGE,
    STRANDLINE,
    MixedGroup,
)
from tests.integration.support.harness import FAULT_SETTINGS

pytestmark = pytest.mark.slow

PARTITIONS = 6


@pytest.mark.parametrize(
    ("assignor", "kinds"),
    [(RANGE, (CONFLUENT, STRANDLINE, AIOKAFKA)), (COOPERATIVE_STICKY, (STRANDLINE, CONFLUENT, STRANDLINE))],
    ids=[RANGE, COOPERATIVE_STICKY],
)
async def test_the_members_of_both_kinds_survive_their_coordinator(
    make_cluster: ClusterFactory, assignor: str, kinds: tuple[str, ...]
) -> None:
    """The next coordinator continues with their generation: nothing is lost, no partition has two owners, and
    the group takes a new member in."""
    cluster = await make_cluster(brokers=3, broker_settings=FAULT_SETTINGS, kafka=True)
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
        written = len(load.acked)
        members.append(group.join(CONFLUENT, assignor))
        await group.settled(*members)
        await load.finish()
        assert len(load.acked) > written
        _ = await group.seen(load.acked)
    assert group.findings() == []
