"""What `__state_changes` has of a topic that is deleted while its replicas move (Q5)."""

from __future__ import annotations

from strandline import Admin, TopicPartition
from strandline.host import Host
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
