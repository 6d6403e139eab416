"""The events in `__state_changes` of a topic that is deleted while its replicas move, or after (Q5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline import Admin, TopicPartition
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.config.limits import KIB
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import RequestTimedOut
from strandline.host import Host, ServiceHost
from strandline.ids import STATE_CHANGES_TOPIC, PartitionId, PartitionKey
from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.world import World
from strandline.vocabulary.admin import NewTopic
from strandline.vocabulary.state_changes import ChangeKind, RequestState, StateChangeEvent, parse_event
from strandline_lab.simulation.internal_topics import records
from strandline_lab.simulation.stage import Stage


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


def test_an_event_that_a_dead_leader_did_not_record_is_recorded_when_its_topic_goes() -> None:
    """CORRECTNESS Q5, E7: a reassignment is done, its leader dies at once, and the topic is deleted."""
    with World(1) as world:
        cluster = Cluster(world, brokers=4)
        client = (stage := Stage(cluster)).client("client")

        async def work(host: ServiceHost) -> list[StateChangeEvent]:
            settings = ZooKeeperSettings(zookeeper=world.zookeeper.address)
            session = await host.connect_coordination(settings, lambda waited_s: None)
            async with Admin(cluster.bootstrap, host=host) as admin:
                await host.clock.sleep(1)
                await admin.create_topics([NewTopic("t", 0, assignments=((3,),))])
                cluster.brokers[3].kill()
                node = await session.get(znodes.isr("t", 0))
                state = isr_znodes.load_isr("t", 0, node.data)
                key = PartitionKey((await admin.describe_topics(["t"]))[0].topic_id, PartitionId(0))
                done = StateChangeEvent(
                    "a move", ChangeKind.REASSIGN, RequestState.COMPLETED, "t", key, state.leader,
                    state.leader_epoch, int(host.clock.wall_ms()),
                )  # fmt: skip
                unrecorded = isr_znodes.dump_isr(replace(state, trail=(*state.trail, done)))
                await session.set(znodes.isr("t", 0), unrecorded, version=node.version)
                await admin.delete_topics(["t"])
                await host.clock.sleep(5)
            return [parse_event(each.value) for each in await records(stage, host, STATE_CHANGES_TOPIC)]

        async def main() -> list[StateChangeEvent]:
            return await client.run(work(client.host))

        seen = world.run(main())
    assert [each.state for each in seen if each.id == "a move"] == [RequestState.COMPLETED]


def test_the_end_of_a_reassignment_outlives_the_controller_that_deleted_its_topic() -> None:
    """CORRECTNESS Q5: the controller is killed right after the deletion, before any broker that leads
    `__state_changes` can take its events."""
    with World(1) as world:
        cluster = Cluster(world, brokers=4, controllers=2)
        client = (stage := Stage(cluster)).client("client")

        async def work(host: ServiceHost) -> list[RequestState]:
            settings = ZooKeeperSettings(zookeeper=world.zookeeper.address)
            session = await host.connect_coordination(settings, lambda waited_s: None)
            async with Admin(cluster.bootstrap, host=host) as admin:
                await host.clock.sleep(1)
                await admin.create_topics([NewTopic("t", 0, assignments=((0, 1, 2),))])
                cluster.brokers[3].kill()
                await admin.reassign({TopicPartition("t", 0): (0, 1, 3)})
                await host.clock.sleep(1)
                for controller in cluster.controller_machines:
                    for broker in cluster.broker_machines:
                        world.network.cut(controller.host, broker.host)
                await admin.delete_topics(["t"])
                active = (await admin.describe_cluster()).controller.id
                cluster.controllers[active].kill()
                world.network.heal_all()
                await host.clock.sleep(20)
                assert await session.children(znodes.UNRECORDED) == []
            events = [parse_event(each.value) for each in await records(stage, host, STATE_CHANGES_TOPIC)]
            return [each.state for each in events if each.command is ChangeKind.REASSIGN]

        async def main() -> list[RequestState]:
            return await client.run(work(client.host))

        seen = world.run(main())
    assert set(seen) == {RequestState.REQUESTED, RequestState.SUPERSEDED}
