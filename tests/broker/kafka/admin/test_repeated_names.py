"""Requests that name one topic more than once: as from Kafka, it is refused, and has one answer."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.topic_changes import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    TopicGrowth,
    UnwantedTopic,
    WantedTopic,
)
from strandline.errors import ErrorCode
from strandline.security.principal import ANONYMOUS
from strandline.simulation.cluster import KAFKA_PORT
from strandline.testing import SimulatedCluster
from tests.integration.security.support.stage import Stage

REFUSED: Final = int(ErrorCode.INVALID_REQUEST)
TIMEOUT_MS: Final = 10_000


def test_a_topic_that_a_request_names_twice_is_refused_and_answered_once() -> None:
    """CreateTopics, CreatePartitions, DeleteTopics. The other topics of a request have their outcomes."""
    with SimulatedCluster(seed=1, brokers=1, broker_settings={"kafka_port": KAFKA_PORT}) as cluster:

        async def play() -> None:
            stage = Stage(cluster)
            new = tuple(
                WantedTopic(name, partitions, 1) for name, partitions in (("a", 1), ("b", 1), ("a", 2))
            )
            created = await stage.kafka(apis.CREATE_TOPICS, CreateTopicsRequest(new, TIMEOUT_MS), ANONYMOUS)
            assert [(each.name, each.error) for each in created.topics] == [("a", REFUSED), ("b", 0)]
            await cluster.create_topic("a")

            growths = tuple(TopicGrowth(name, total) for name, total in (("a", 3), ("a", 5), ("b", 2)))
            grown = await stage.kafka(
                apis.CREATE_PARTITIONS, CreatePartitionsRequest(growths, TIMEOUT_MS, False), ANONYMOUS
            )
            assert [(each.name, each.error) for each in grown.topics] == [("a", REFUSED), ("b", 0)]

            async with cluster.admin() as admin:
                ids = {each.name: each.topic_id for each in await admin.describe_topics(["a", "b"])}
            by_name, by_id = UnwantedTopic("a"), UnwantedTopic(None, ids["a"])
            for twice in ((by_name, by_name), (by_id, by_id), (by_name, by_id)):
                asked = DeleteTopicsRequest((*twice, UnwantedTopic("c")), TIMEOUT_MS)
                deleted = await stage.kafka(apis.DELETE_TOPICS, asked, ANONYMOUS)
                refused = [each for each in deleted.topics if each.name != "c"]
                assert [(each.name, each.error) for each in refused] == [
                    (each.name, REFUSED) for each in dict.fromkeys(twice)
                ]
            async with cluster.admin() as admin:
                assert {each.name for each in await admin.describe_topics(["a", "b"])} == {"a", "b"}
            deleted = await stage.kafka(
                apis.DELETE_TOPICS, DeleteTopicsRequest((by_name, UnwantedTopic("b")), TIMEOUT_MS), ANONYMOUS
            )
            assert [each.error for each in deleted.topics] == [0, 0]

        cluster.run(play())
