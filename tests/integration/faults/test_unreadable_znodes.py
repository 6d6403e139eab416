"""Znodes that hold what no process of the cluster writes end nothing (CORRECTNESS X5)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from strandline import Admin, Consumer, Producer
from strandline.adapters.zookeeper import znodes
from strandline.ids import TopicPartition
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS, Harness, watching
from tests.waiting import eventually

pytestmark = pytest.mark.slow

NESTED = b"[" * 100_000
NOT_TEXT = b"\xff\xfe{"
GIANT = b'{"leader":1,"epoch":1e999,"isr":[[1,' + b"9" * 4_000 + b"]]}"


@pytest.fixture
async def two(make_cluster: ClusterFactory) -> AsyncIterator[Harness]:
    """The written content stays unreadable, so no other test uses the cluster."""
    async with watching(await make_cluster(brokers=2, broker_settings=FAULT_SETTINGS)) as harness:
        yield harness


async def test_brokers_and_controller_outlive_unreadable_znodes(two: Harness) -> None:
    """In a topic, its partitions, both queues, a drain and a reassignment: others are served throughout, and
    a broker that starts among them serves too."""
    session, cluster = two.session, two.cluster
    bad = await two.create_topic([(1, 2), (2, 1)])
    await two.create_topic([(1, 2)])
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("sound", partitions=2, replication_factor=2)
    await session.set(znodes.isr(bad.name, 0), GIANT)
    await session.set(znodes.isr(bad.name, 1), NESTED)
    for path, data in (
        (znodes.topic("nested"), NESTED),
        (znodes.topic("not-text"), NOT_TEXT),
        (znodes.drain(2), NESTED),
        (znodes.drain(7) + "²", NESTED),
        (f"{znodes.TOPICS}/no topic", NOT_TEXT),
        (f"{znodes.DELETE_TOPICS}/no topic", b""),
        (f"{znodes.REASSIGNED}/no topic", b""),
        (f"{znodes.BROKER_IDS}/77", NESTED),
        (f"{znodes.BROKER_IDS}/x", NOT_TEXT),
    ):
        await session.create(path, data)
    for broker in (1, 2):
        await session.create(znodes.state_entry_prefix(broker), NESTED, sequential=True)
        await session.create(znodes.election_notice_prefix(broker), NESTED, sequential=True)
    await cluster.kill_broker(2)
    await cluster.start_broker(2)
    async with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        names = await admin.list_topics()
        assert "sound" in names
        for number in range(2):
            await producer.send_and_wait("sound", b"high water", partition=number)
        await admin.create_topic("after", partitions=1, replication_factor=2)
    async with Consumer(cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("sound", number) for number in range(2)])
        assert {(await consumer.getone()).partition for _ in range(2)} == {0, 1}

    async def queues_drained() -> bool:
        return not [
            entry
            for broker in (1, 2)
            for entry in (
                *await session.children(znodes.state_queue(broker)),
                *await session.children(znodes.elections(broker)),
            )
        ]

    await eventually(queues_drained, deadline_s=30)
    assert all(two.running(broker) for broker in (1, 2))
    assert two.running(1, "controller")
