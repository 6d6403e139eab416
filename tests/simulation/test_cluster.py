"""Real brokers, a real controller and real clients in a simulated world."""

from __future__ import annotations

import gc

import pytest

from strandline.client.admin.admin import Admin
from strandline.consumer.consumer import Consumer
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.producer.producer import Producer
from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.world import World

RECORDS = 120
PARTITIONS = [TopicPartition("topic", 0), TopicPartition("topic", 1)]


async def write(cluster: Cluster, host: Host) -> None:
    """Every record is acknowledged, although a broker is killed and comes back meanwhile."""
    bootstrap = cluster.bootstrap
    async with Producer(bootstrap, host=host) as producer:
        for number in range(RECORDS):
            _ = await producer.send("topic", b"%d" % number, partition=number % 2)
            await host.clock.sleep(0.02)
            if number == RECORDS // 3:
                cluster.brokers[0].kill()
            elif number == RECORDS // 2:
                cluster.start_broker(0)
        await producer.flush()


async def read(cluster: Cluster, host: Host) -> list[int]:
    consumer = Consumer(cluster.bootstrap, host=host, offset_reset="earliest")
    async with consumer:
        consumer.assign(PARTITIONS)
        return [int((await anext(consumer)).value or b"") for _ in range(RECORDS)]


def run(seed: int) -> str:
    """Returns the hash of the trace."""
    with World(seed) as world:
        cluster = Cluster(world)
        client = world.new_process("client", world.new_machine())

        async def work(host: Host) -> None:
            admin = Admin(cluster.bootstrap, host=host)
            async with admin:
                await admin.create_topic("topic", 2, 3)
            await write(cluster, host)
            assert sorted(await read(cluster, host)) == list(range(RECORDS))

        async def main() -> None:
            await client.run(work(client.host))

        world.run(main())
        assert world.defects == []
        return world.trace.digest()


@pytest.mark.parametrize("seed", range(3))
def test_no_acknowledged_record_is_lost_when_a_broker_is_killed(seed: int) -> None:
    run(seed)


def test_one_seed_gives_one_trace_whenever_garbage_is_collected() -> None:
    before = gc.get_threshold()
    first = run(11)
    gc.set_threshold(50)
    try:
        assert run(11) == first
    finally:
        gc.set_threshold(*before)
    assert run(12) != first
