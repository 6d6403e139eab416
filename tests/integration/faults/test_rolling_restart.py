"""A cluster restarted broker after broker, and a broker emptied, while users write and read (USERS 11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from strandline import Admin
from strandline.adapters.zookeeper import znodes
from strandline.vocabulary.state_changes import ChangeKind
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS, Harness, Topic
from tests.integration.support.lives import judged
from tests.integration.support.workload import workload
from tests.strandline.cli.support.cli_process import strandline
from tests.waiting import eventually, looking

pytestmark = pytest.mark.slow

READY_S_MAX = "40"


async def command(harness: Harness, *arguments: str) -> list[Any]:
    """A command that has to succeed; what it said as JSON."""
    ended = await strandline(*arguments, "-o", "json", "--bootstrap", harness.cluster.bootstrap)
    assert ended.status == 0, (arguments, ended.out, ended.err)
    return ended.objects


class Availability:
    """The fewest members in sync that a partition ever had, by what ZooKeeper shows again and again."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.least: dict[int, int] = {}
        self.looks = 0

    async def look(self) -> None:
        live = await self.topic.harness.live()
        for name in self.topic.partitions:
            state = await self.topic.state(name.partition)
            # A member that left after `live` was read counts: a former member is not asked what it kept.
            alive = sum(
                member.broker in live and live[member.broker].epoch == member.broker_epoch
                for member in state.isr
            )
            self.least[name.partition] = min(alive, self.least.get(name.partition, alive))
        self.looks += 1


@asynccontextmanager
async def watched(topic: Topic) -> AsyncIterator[Availability]:
    found = Availability(topic)
    async with looking(found.look):
        yield found


@pytest.mark.timeout(240)
async def test_a_rolling_restart_costs_no_error_no_record_and_no_availability(own: Harness) -> None:
    """Drain, stop, start, wait until it is ready: no producer sees an error, nothing that was acknowledged is
    lost, and no partition ever has fewer in sync than min.insync.replicas (CORRECTNESS H5, I7)."""
    topic = await own.create_topic([(1, 2, 3), (2, 3, 1), (3, 1, 2)], {"min.insync.replicas": "2"})
    bound = 2
    async with workload(topic) as load, watched(topic) as availability:
        await load.progress()
        before = {broker: await own.broker_epoch(broker) for broker in own.cluster.broker_ids}
        for broker in own.cluster.broker_ids:
            await command(own, "broker", "ready", str(broker), "--wait", READY_S_MAX)
            (drained,) = await command(own, "broker", "drain", str(broker), "--wait")
            assert (drained["drained"], drained["leaderships"]) == (True, 0)
            for name in topic.partitions:
                assert (await topic.state(name.partition)).leader != broker
            await load.progress()
            await own.cluster.stop_broker(broker)
            await load.progress()
            await own.cluster.start_broker(broker)
            (ready,) = await command(own, "broker", "ready", str(broker), "--wait", READY_S_MAX)
            assert ready["ready"] is True
            await load.progress()
        after = {broker: await own.broker_epoch(broker) for broker in own.cluster.broker_ids}
        assert all(after[broker] > before[broker] for broker in before), "each lives again"
        history = await load.judge()
    assert history.failed == []
    assert availability.looks > 50
    assert min(availability.least.values()) >= bound, availability.least
    async with Admin(own.cluster.bootstrap) as admin:
        recorded = [
            event
            async for event in admin.state_changes(topic=topic.name)
            if event.command in (ChangeKind.ELECT_LEADER, ChangeKind.CHANGE_ISR)
        ]
        drained = [b.endpoint.id for b in (await admin.describe_cluster()).brokers if b.drained]
    assert all(event.isr is not None and len(event.isr) >= bound for event in recorded)
    reasons = Counter(event.reason for event in recorded if event.command is ChangeKind.ELECT_LEADER)
    assert any("drain" in reason for reason in reasons), reasons

    async def none_drained() -> bool:
        async with Admin(own.cluster.bootstrap) as asked:
            return not any(b.drained for b in (await asked.describe_cluster()).brokers)

    await eventually(none_drained, deadline_s=20, what=f"no drain is left of {drained}")


@pytest.mark.timeout(240)
async def test_a_broker_is_emptied_under_load_and_is_then_not_missed(make_cluster: ClusterFactory) -> None:
    """Replicas go one after the other to the brokers that have the fewest; then the broker may be killed."""
    cluster = await make_cluster(
        brokers=4,
        broker_settings=FAULT_SETTINGS,
        controller_settings={"reassignments_in_flight_max": 2, "reconcile_ms": 500},
    )
    async with judged(cluster) as harness:
        topic = await harness.create_topic([(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2)])
        async with workload(topic) as load:
            await load.progress()
            (drained,) = await command(harness, "broker", "drain", "1", "--replicas", "--wait")
            assert (drained["drained"], drained["replicas"], drained["problems"]) == (True, 0, [])
            topic.assignment = [await assigned(harness, topic, name.partition) for name in topic.partitions]
            assert [set(replicas) for replicas in topic.assignment] == [{2, 3, 4}] * 4
            assert [replicas.index(4) for replicas in topic.assignment] == [0, 2, 1, 0]
            assert await harness.session.children(znodes.REASSIGNED) == []

            def left() -> list[str]:
                return [path.name for path in cluster.data_dir(1).glob(f"{topic.name}-*")]

            await eventually(lambda: not left(), deadline_s=30, what="its folders are gone")
            await cluster.kill_broker(1)
            await load.progress()
            history = await load.judge()
        assert history.failed == []


async def assigned(harness: Harness, topic: Topic, partition: int) -> tuple[int, ...]:
    """AR of a partition."""
    node = await harness.session.get(znodes.replicas(topic.name, partition))
    return znodes.load_replicas(topic.name, partition, node.data)
