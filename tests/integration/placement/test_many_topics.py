"""Topics grow and are deleted while the controller in charge dies, and a broker is away: the next
controller completes the work, and no broker keeps deleted data."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline import Admin, NewTopic, Producer
from strandline.adapters.zookeeper import znodes
from strandline.config.limits import KIB
from strandline.errors import NotController, OutcomeUnknown, UnknownTopicOrPartition
from tests.integration.support.controllers import armed_controller
from tests.integration.support.harness import Topic
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.strandline(controllers=2)]
"""A controller to take over."""

TOPICS, PARTITIONS = 20, 3


@on_virtual_time
@pytest.mark.parametrize("point", ["controller.grow.before", "controller.grow.written"])
async def test_a_topic_grows_under_load_though_its_controller_dies(
    harness: SimulatedHarness, point: str
) -> None:
    """Partitions are added all or none; the old ones are written meanwhile, and then all (CORRECTNESS E7)."""
    old, new = [(1, 2, 3), (2, 3, 1)], [(3, 1, 2), (1, 3, 2), (2, 1, 3)]
    topic = await harness.create_topic(old)
    async with Admin(harness.cluster.bootstrap, host=harness.cluster.host) as admin, workload(topic) as load:
        await load.progress()
        async with armed_controller(harness, point):
            with pytest.raises(OutcomeUnknown):
                await admin.alter_topic(topic.name, partitions=5, assignments=new)
        assert len(await written(topic)) == (2 if point.endswith("before") else 5)
        if point.endswith("before"):
            await admin.alter_topic(topic.name, partitions=5, assignments=new)
        await load.progress()
        history = await load.judge()
    assert history.failed == []
    grown = Topic(harness, topic.name, [*old, *new])
    await grown.settled()
    async with Producer(
        harness.cluster.bootstrap, host=harness.cluster.host, metadata_max_age_ms=200
    ) as producer:
        for name in grown.partitions:
            await producer.send_and_wait(name.topic, b"v", partition=name.partition)
    assert await written(topic) == [0, 1, 2, 3, 4]
    await grown.agreed()


async def written(topic: Topic) -> list[int]:
    """The partitions that the topic says it has, each with its replicas."""
    session = topic.harness.session
    node = znodes.load_topic(topic.name, (await session.get(znodes.topic(topic.name))).data)
    numbers = sorted(int(number) for number in await session.children(znodes.topic(topic.name)))
    assert numbers == list(range(node.partitions))
    return numbers


@on_virtual_time
@pytest.mark.strandline(controller_settings={"multi_bytes_max": 72 * KIB})
@pytest.mark.parametrize("point", ["controller.delete.marked", "controller.delete.removed:3"])
async def test_topics_are_deleted_though_their_controller_dies_and_a_broker_is_away(
    harness: SimulatedHarness, point: str
) -> None:
    """The next controller deletes marked topics; the broker that was away has nothing of them when it
    serves again, and each request to it has its end (CORRECTNESS Q1, Q2). The topics do not fit into one
    multi, so some may be gone when the controller dies."""
    cluster = harness.cluster
    names = [f"bulk-{number}" for number in range(TOPICS)]
    async with Admin(cluster.bootstrap, host=cluster.host) as admin:
        await admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in names])
        assert len(everywhere(harness)) == TOPICS * PARTITIONS * 3
        await cluster.kill_broker(3)
        # An Admin that never spoke with a controller: the other's connection breaks with the one before.
        async with armed_controller(harness, point), Admin(cluster.bootstrap, host=cluster.host) as asked:
            with pytest.raises(OutcomeUnknown):
                await asked.delete_topics(names)

        async def gone() -> bool:
            left = [name for name in names if name in await admin.list_topics()]
            if left:
                try:
                    await admin.delete_topics(left)
                except (OutcomeUnknown, NotController, UnknownTopicOrPartition):
                    return False  # the one before had marked it, and the next one ends that
            return not left

        await eventually(gone, deadline_s=30, what="all topics are gone")
    assert await harness.session.children(znodes.DELETE_TOPICS) == []
    await cluster.start_broker(3)
    await eventually(
        lambda: not everywhere(harness),
        deadline_s=30,
        what="no broker has any of them",
    )


def everywhere(harness: SimulatedHarness) -> list[Path]:
    """The folders of all replicas on all brokers."""
    return [folder for broker in harness.cluster.broker_ids for folder in harness.folders(broker, "bulk-")]
