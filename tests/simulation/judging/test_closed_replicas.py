"""A reassignment closes a replica, and everything that was to replace it loses its power (CORRECTNESS Q8).

The brokers that return are not sure to have every record: they wait for the replica that was to close.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from strandline import Admin, Producer, TopicPartition
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import queue_znodes
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.host import ServiceHost
from strandline.ids import BrokerId
from strandline.ports import Coordination, NoNode
from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.world import World
from strandline.vocabulary.admin import NewTopic
from strandline.vocabulary.state_changes import Command
from strandline_lab.simulation.faults.fault import Scene
from strandline_lab.simulation.stage import Stage

LEAVING = BrokerId(2)
OTHERS = (0, 1, 3)


async def closing(session: Coordination, host: ServiceHost) -> None:
    """Returns once the broker that leaves is asked to close."""
    queue = znodes.state_queue(LEAVING)
    while True:
        for entry in await session.children(queue):
            with suppress(NoNode):  # it has just ended
                changes = queue_znodes.load_state_changes((await session.get(f"{queue}/{entry}")).data)
                if any(each.command is Command.CLOSE_REPLICA for each in changes):
                    return
        await host.clock.sleep(0.0005)


async def moved(admin: Admin, host: ServiceHost) -> bool:
    """Returns within a minute whether the replicas are where they should be, and all in sync."""
    for _ in range(60):
        await host.clock.sleep(1)
        (topic,) = await admin.describe_topics(["t"])
        (found,) = topic.partitions
        if found.leader >= 0 and set(found.isr) == set(found.replicas) == set(OTHERS):
            return True
    return False


@pytest.mark.parametrize("closes_before", [False, True], ids=["closes later", "has closed"])
def test_a_partition_gets_a_leader_though_the_leader_that_closed_a_replica_is_gone(
    closes_before: bool,
) -> None:
    with World(1) as world:
        cluster = Cluster(world, brokers=4)
        scene = Scene(stage := Stage(cluster))
        client = stage.client("client")
        zookeepers = [server.process.host for server in world.zookeeper.servers]

        async def work(host: ServiceHost) -> None:
            settings = ZooKeeperSettings(zookeeper=world.zookeeper.address)
            session = await host.connect_coordination(settings, lambda waited_s: None)
            async with Admin(cluster.bootstrap, host=host) as admin:
                await host.clock.sleep(1)
                await admin.create_topics([NewTopic("t", 0, assignments=((0, 1, LEAVING),))])
                async with Producer(cluster.bootstrap, host=host) as producer:
                    for number in range(10):
                        await (await producer.send("t", str(number).encode()))
                if not closes_before:
                    for zookeeper in zookeepers:
                        world.network.cut(cluster.broker_machines[LEAVING].host, zookeeper)
                await admin.reassign({TopicPartition("t", 0): OTHERS})
                await closing(session, host)
                cluster.brokers[0].pause()  # the leader: it cannot write that the other one has closed
                await host.clock.sleep(0.1)
                scene.lose_power(OTHERS if closes_before else range(4))
                await host.clock.sleep(5)
                world.network.heal_all()
                scene.return_powers(OTHERS)
                await host.clock.sleep(5)
                scene.return_powers([LEAVING])
                assert await moved(admin, host)

        async def main() -> None:
            await client.run(work(client.host))

        world.run(main())
