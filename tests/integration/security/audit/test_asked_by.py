"""Who asked for a change stands in its records, whichever way the request came (A17)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strandline import TopicPartition
from strandline.adapters.asked_for import asking_for
from strandline.adapters.codecs.admin import CREATE_TOPICS
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.topic_changes import CreateTopicsRequest, WantedTopic
from strandline.security.acls import CLUSTER_NAME
from strandline.security.audit.entry import Source
from strandline.security.principal import Principal
from strandline.security.rights import CREATE_CLUSTER
from strandline.testing import SimulatedCluster
from strandline.vocabulary.admin import CreateTopics, NewTopic
from strandline.vocabulary.state_changes import AskedBy, ChangeKind, Command, StateChangeEvent
from tests.integration.security.support.bindings import ALICE, binding
from tests.integration.security.support.stage import KAFKA_HOST, ROOT, Stage, secure_cluster

TIMEOUT_MS = 30_000
A_NEW_LEADER = "a new leader"
"""The reason of what a leader asks of its followers for itself."""


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with secure_cluster(brokers=2) as made:
        yield made


async def recorded(cluster: SimulatedCluster, stage: Stage, topic: str) -> list[StateChangeEvent]:
    with stage.calls_by(ROOT):
        async with cluster.admin() as admin:
            return [event async for event in admin.state_changes(topic=topic)]


async def asked_by(
    cluster: SimulatedCluster, stage: Stage, topic: str, *kinds: Command | ChangeKind
) -> set[AskedBy | None]:
    """Of all records of these kinds, once there are some of each."""
    found: list[StateChangeEvent] = []

    async def complete() -> bool:
        found[:] = [
            event
            for event in await recorded(cluster, stage, topic)
            if event.command in kinds and event.reason != A_NEW_LEADER
        ]
        return {event.command for event in found} == set(kinds)

    await cluster.run_until(complete, what=f"{topic} has its records")  # type: ignore[arg-type]
    return {event.by for event in found}


def test_changes_over_grpc_name_the_caller(cluster: SimulatedCluster) -> None:
    """A17: also those that brokers carry out later for it: elections, and the end of a reassignment."""

    async def play() -> None:
        stage = Stage(cluster)
        first = TopicPartition("tides", 0)
        with stage.calls_by(ROOT):
            async with cluster.admin() as admin:
                await admin.create_topic("tides", partitions=1, replication_factor=2)
                (described,) = await admin.describe_topics(["tides"])
                leader, other = described.partitions[0].replicas
                await admin.reassign({first: [other, leader]})

                async def moved() -> bool:
                    return not await admin.list_reassignments()

                await cluster.run_until(moved, what="the replicas have moved")  # type: ignore[arg-type]
                await admin.elect_preferred([first])
                await admin.delete_topics(["tides"])
        (by,) = await asked_by(cluster, stage, "tides", Command.DELETE_REPLICA)
        assert by is not None and by.principal == "User:root" and by.address
        for kind in (ChangeKind.REASSIGN, ChangeKind.RESIGN_LEADER):
            assert await asked_by(cluster, stage, "tides", kind) == {by}
        elections = await asked_by(cluster, stage, "tides", ChangeKind.ELECT_LEADER)
        assert elections == {None, by}  # no caller asked for the first one

    cluster.run(play())


def test_a_drain_names_the_caller_in_what_it_moves(cluster: SimulatedCluster) -> None:
    """A17: its moves are upkeep's, and go on with the next controller."""

    async def play() -> None:
        stage = Stage(cluster)
        with stage.calls_by(ROOT):
            async with cluster.admin() as admin:
                await admin.create_topic("tides", partitions=1, replication_factor=2)

                async def leader() -> int:
                    (described,) = await admin.describe_topics(["tides"])
                    return described.partitions[0].leader

                async def led() -> bool:
                    return await leader() >= 0

                await cluster.run_until(led, what="it has a leader")  # type: ignore[arg-type]
                await admin.drain_broker(await leader())
        (by,) = await asked_by(cluster, stage, "tides", ChangeKind.RESIGN_LEADER)
        assert by is not None and by.principal == "User:root"

    cluster.run(play())


def test_changes_over_kafkas_protocol_name_the_client_and_not_its_broker(cluster: SimulatedCluster) -> None:
    """A17"""

    async def play() -> None:
        stage = Stage(cluster)
        await stage.only([binding(CREATE_CLUSTER, CLUSTER_NAME)])
        await stage.kafka(
            apis.CREATE_TOPICS, CreateTopicsRequest((WantedTopic("tides", 1, 1),), TIMEOUT_MS), ALICE
        )
        by = await asked_by(cluster, stage, "tides", Command.START_REPLICA)
        assert by == {AskedBy("User:alice", KAFKA_HOST)}

    cluster.run(play())


def test_a_client_cannot_ask_in_anothers_name(cluster: SimulatedCluster) -> None:
    """A17: what a broker would say, a client may send, and is not believed."""

    async def play() -> None:
        stage = Stage(cluster)
        await stage.only([binding(CREATE_CLUSTER, CLUSTER_NAME)])
        with stage.calls_by(ALICE), asking_for(Source("User:root", address="203.0.113.9")):
            await stage.call(CREATE_TOPICS, CreateTopics([NewTopic("tides", 1, 1)], validate_only=False))
        (by,) = await asked_by(cluster, stage, "tides", Command.START_REPLICA)
        assert by is not None and by.principal == str(Principal("alice")) and by.address != "203.0.113.9"

    cluster.run(play())
