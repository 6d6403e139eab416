"""Topics of an application's own while a broker is away, on virtual time."""

from __future__ import annotations

import logging

import pytest

from strandline.streams import INTEGER, STRING, Streams, Topology
from strandline.testing import SimulatedCluster
from tests.streams.runtime.applications import COUNTS

APPLICATION = "counting"


def counting() -> Topology:
    topology = Topology()
    topology.source("words", key=STRING).count(COUNTS).to("counts", key=STRING, value=INTEGER)
    return topology


def counted(member: Streams) -> dict[str, int]:
    return dict(member.store(COUNTS).range())


def test_a_changelog_grows_once_there_are_brokers_for_its_replicas(
    simulated_cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Meanwhile its task waits, and the others run: another member could not grow it either."""
    cluster = simulated_cluster
    changelog = f"{APPLICATION}-words-changelog"

    async def grows() -> None:
        await cluster.create_topic("words", replication_factor=2)
        await cluster.create_topic("counts")
        async with (
            cluster.admin() as admin,
            cluster.producer() as producer,
            cluster.streams(counting(), application_id=APPLICATION, replication_factor=3) as member,
        ):
            await producer.send_and_wait("words", b"", key=b"tide")
            await cluster.run_until(lambda: counted(member) == {"tide": 1})
            away = cluster.followers("words")[0]
            cluster.kill(away)
            await cluster.run_until(lambda: away not in cluster.registered)
            await admin.alter_topic("words", partitions=2)
            await cluster.run_until(lambda: f"{changelog} waits for brokers" in caplog.text)
            await producer.send_and_wait("words", b"", key=b"harbour", partition=1)
            await producer.send_and_wait("words", b"", key=b"tide", partition=0)
            await cluster.run_until(lambda: counted(member) == {"tide": 2})
            cluster.start(away)
            await cluster.run_until(lambda: counted(member) == {"tide": 2, "harbour": 1})

    with caplog.at_level(logging.WARNING):
        cluster.run(grows())
