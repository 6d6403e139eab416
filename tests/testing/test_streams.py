"""Stream applications in clusters for tests, with their stores in memory."""

from __future__ import annotations

from strandline.host import Host
from strandline.streams import INTEGER, STRING, Streams, Topology
from strandline.testing import MemoryCluster, SimulatedCluster
from strandline.testing.played import PlayedCluster

WORDS = [b"tide", b"harbour", b"tide"]


def counting() -> Topology:
    topology = Topology()
    topology.source("words", key=STRING).count("by-word").to("counts", key=STRING, value=INTEGER)
    return topology


async def topics(cluster: PlayedCluster) -> None:
    for topic in ("words", "counts"):
        await cluster.create_topic(topic, partitions=2)


async def say(cluster: PlayedCluster) -> None:
    async with cluster.producer() as producer:
        for word in WORDS:
            await producer.send_and_wait("words", b"", key=word)


async def test_an_application_counts_in_memory() -> None:
    async with MemoryCluster(brokers=1) as cluster:
        await topics(cluster)
        await say(cluster)
        async with cluster.streams(counting(), application_id="counting") as app:
            counts = app.store("by-word")
            await cluster.run_until(lambda: dict(counts.range()) == {"tide": 2, "harbour": 1})


def test_a_killed_member_continues_with_what_its_store_has() -> None:
    with SimulatedCluster(seed=2) as cluster:
        cluster.run(killed_and_started(cluster))


async def killed_and_started(cluster: SimulatedCluster) -> None:
    members: list[Streams] = []

    async def main(host: Host) -> None:
        stores = application.stores.open
        async with Streams(
            counting(), cluster.bootstrap, application_id="c", state_dir="s", host=host, open_stores=stores
        ) as member:
            members.append(member)
            await member.wait()

    def tides() -> int | None:
        return dict(members[-1].store("by-word").range()).get("tide")

    await topics(cluster)
    await say(cluster)
    application = cluster.application("counting", main)
    await cluster.run_until(lambda: members and tides() == 2)
    application.kill()
    await say(cluster)
    application.start()
    await cluster.run_until(lambda: len(members) == 2 and tides() == 4)
