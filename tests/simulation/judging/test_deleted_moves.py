"""What `__state_changes` has of a topic that is deleted while its replicas move (Q5)."""

from __future__ import annotations

import pytest

from strandline import Admin, TopicPartition
from strandline.adapters.zookeeper import znodes
from strandline.config.limits import KIB
from strandline.config.services import ZooKeeperSettings
from strandline.errors import RequestTimedOut
from strandline.host import Host, ServiceHost
from strandline.ids import STATE_CHANGES_TOPIC
from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.world import World
from strandline.simulation.internal_topics import records
from strandline.simulation.stage import Stage
from strandline.vocabulary.admin import NewTopic
from strandline.vocabulary.state_changes import ChangeKind, RequestState, parse_event


def test_a_reassignment_ends_with_its_topic() -> None:
    """CORRECTNESS Q5: it waits for a broker that is dead, and ends as superseded, with the reason."""
    with World(1) as world:
        cluster = Cluster(world, brokers=4)
        stage = Stage(cluster)
        client = stage.client("client")

        async def work(host: Host) -> list[tuple[RequestState, str]]:
            async with Admin(cluster.bootstrap, host=host) as admin:
                await host.clock.sleep(1)
                await admin.create_topics([NewTopic("t", 0, assignments=((0, 1, 2),))])
                cluster.brokers[3].kill()
                await admin.reassign({TopicPartition("t", 0): (0, 1, 3)})
                await admin.delete_topics(["t"])
                await host.clock.sleep(5)
                events = [parse_event(each.value) for each in await records(stage, host, STATE_CHANGES_TOPIC)]
            return [(each.state, each.reason) for each in events if each.command is ChangeKind.REASSIGN]

        async def main() -> list[tuple[RequestState, str]]:
            return await client.run(work(client.host))

        seen = world.run(main())
    assert seen[0] == (RequestState.REQUESTED, "")
    assert seen[-1] == (RequestState.SUPERSEDED, "topic deleted")


def test_each_reassignment_of_a_topic_that_is_deleted_in_parts_has_an_end() -> None:
    """CORRECTNESS Q5: a part was written, and the last one fails until an operator removes a znode of his
    own. A later attempt no longer finds the reassignments of the first part."""
    partitions = 120
    with World(1) as world:
        cluster = Cluster(world, brokers=4, controller_settings={"multi_bytes_max": 72 * KIB})
        stage = Stage(cluster)
        client = stage.client("client")

        async def work(host: ServiceHost) -> list[tuple[RequestState, int]]:
            settings = ZooKeeperSettings(zookeeper=world.zookeeper.address)
            session = await host.connect_coordination(settings, lambda waited_s: None)
            foreign = f"{znodes.topic('t')}/foreign"
            async with Admin(cluster.bootstrap, host=host) as admin:
                await host.clock.sleep(1)
                await admin.create_topics([NewTopic("t", 0, assignments=((0, 1),) * partitions)])
                cluster.brokers[3].kill()
                await admin.reassign({TopicPartition("t", number): (0, 3) for number in range(partitions)})
                await session.create(foreign, b"")
                with pytest.raises(RequestTimedOut):
                    await admin.delete_topics(["t"])
                await session.delete(foreign)
                await host.clock.sleep(20)
                assert await session.exists(znodes.topic("t")) is None
                events = [parse_event(each.value) for each in await records(stage, host, STATE_CHANGES_TOPIC)]
            moves = [each for each in events if each.command is ChangeKind.REASSIGN]
            return [(each.state, each.key.partition) for each in moves]

        async def main() -> list[tuple[RequestState, int]]:
            return await client.run(work(client.host))

        seen = world.run(main())
    ended = sorted(partition for state, partition in seen if state is RequestState.SUPERSEDED)
    assert ended == list(range(partitions))
