"""Topics through the whole cluster: what the controller queues is what brokers do."""

from __future__ import annotations

import pytest

from strandline import Admin, LocalCluster, NewTopic, Producer
from strandline.errors import TopicAlreadyExists
from tests.conftest import ClusterFactory
from tests.waiting import eventually

pytestmark = pytest.mark.slow

TIMEOUT_MS = 30_000
TOPICS = 80
"""More than a controller creates or deletes at the same time."""


async def keeps(cluster: LocalCluster, broker: int, topic_id: str, partitions: int) -> None:
    """Return once a broker's folder holds this number of partitions of this incarnation of a topic."""

    def kept() -> bool:
        names = [path.name for path in cluster.data_dir(broker).iterdir()]
        return sum(topic_id in name for name in names) == partitions

    await eventually(kept, what=f"broker {broker} keeps {partitions} partitions")


async def test_a_deleted_topic_leaves_no_files_on_live_brokers_nor_on_one_that_was_down(
    make_cluster: ClusterFactory,
) -> None:
    """Q1: the deletion that waited for a dead broker does not touch the topic created anew under the name."""
    cluster = await make_cluster(brokers=3)
    async with Admin(cluster.bootstrap, request_timeout_ms=TIMEOUT_MS) as admin:
        await admin.create_topic("t", partitions=2, replication_factor=3)
        (old,) = await admin.describe_topics(["t"])
        for broker in cluster.broker_ids:
            await keeps(cluster, broker, old.topic_id, 2)
        await cluster.kill_broker(3)
        await admin.delete_topics(["t"])
        for broker in (1, 2):
            await keeps(cluster, broker, old.topic_id, 0)
        await keeps(cluster, 3, old.topic_id, 2)
        await admin.create_topic("t", partitions=1, replication_factor=2)
        await cluster.start_broker(3)
        await keeps(cluster, 3, old.topic_id, 0)
        (new,) = await admin.describe_topics(["t"])
        assert new.topic_id != old.topic_id
        async with Producer(cluster.bootstrap) as producer:
            assert (await producer.send_and_wait("t", b"x")).offset == 0


async def test_another_controller_continues_after_the_active_one_was_killed(
    make_cluster: ClusterFactory,
) -> None:
    """Several may run, one is active; clients find it by themselves."""
    cluster = await make_cluster(brokers=1, controllers=2)
    async with Admin(cluster.bootstrap, request_timeout_ms=TIMEOUT_MS) as admin:
        await admin.create_topic("before", partitions=1, replication_factor=1)
        active = (await admin.describe_cluster()).controller
        assert active is not None
        await cluster.kill_controller(active.id)
        await admin.create_topic("after", partitions=1, replication_factor=1)
        assert {"after", "before"} <= set(await admin.list_topics())
        with pytest.raises(TopicAlreadyExists):
            await admin.create_topic("before", partitions=1, replication_factor=1)


async def test_many_topics_of_one_request_are_placed_evenly_led_and_deleted(
    cluster: LocalCluster,
) -> None:
    async with Admin(cluster.bootstrap, request_timeout_ms=2 * TIMEOUT_MS) as admin:
        names = [f"many-{number}" for number in range(TOPICS)]
        await admin.create_topics([NewTopic(name, 3, 3) for name in names])
        described = await admin.describe_topics(names)
        leaders = [p.replicas[0] for topic in described for p in topic.partitions]
        assert [leaders.count(broker) for broker in cluster.broker_ids] == [len(names)] * 3
        assert all(p.leader >= 0 for topic in described for p in topic.partitions)
        await admin.delete_topics(names)
        assert not set(names) & set(await admin.list_topics())
