"""A changelog's identity beyond its name, from brokers in memory."""

from __future__ import annotations

import asyncio

import pytest

from strandline.client.cluster import Cluster
from strandline.config.consumer import ConsumerSettings
from strandline.errors import BrokerNotAvailable, LeaderNotAvailable, UnknownTopicOrPartition
from strandline.ids import NO_BROKER, TopicId, TopicPartition
from strandline.streams.restore.identities import Identities
from strandline.vocabulary.log import MetadataAnswer, MetadataQuery
from strandline.vocabulary.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from tests.strandline.client.network import FastClock, Network
from tests.waiting import eventually

TOPIC = "counts-changelog"
NAME = TopicPartition(TOPIC, 3)


class Broker:
    """Answers once it is let, with what the topic is at that moment."""

    def __init__(self) -> None:
        self.topic_id = "first"
        self.partitions = 8
        self.asked = 0
        self.fails = 0
        self.answers = asyncio.Event()
        self.answers.set()

    def identities(self) -> Identities:
        network = Network()
        network.brokers["a:1"] = self._answer
        return Identities(Cluster("a:1", ConsumerSettings(), network, FastClock()))

    async def _answer(self, query: MetadataQuery) -> MetadataAnswer:
        self.asked += 1
        topic_id = self.topic_id
        await self.answers.wait()
        if self.fails:
            self.fails -= 1
            raise LeaderNotAvailable("not now")
        partitions = tuple(
            PartitionMetadata(number, NO_BROKER, 0, (), ()) for number in range(self.partitions)
        )
        topics = (TopicMetadata(TOPIC, TopicId(topic_id), partitions),) if topic_id else ()
        return MetadataAnswer(ClusterMetadata("c", (), None, topics), {})


async def test_an_identity_is_the_topics_id_and_the_partition() -> None:
    assert await Broker().identities().find(NAME) == "first-3"


async def test_a_missing_topic_has_no_identity() -> None:
    broker = Broker()
    identities = broker.identities()
    with pytest.raises(UnknownTopicOrPartition):
        await identities.find(TopicPartition(TOPIC, 8))
    broker.topic_id = ""
    with pytest.raises(UnknownTopicOrPartition):
        await identities.find(NAME)


async def test_concurrent_callers_share_one_question_about_a_moment_after_their_call() -> None:
    broker = Broker()
    identities = broker.identities()
    broker.answers.clear()
    async with asyncio.TaskGroup() as tasks:
        early = tasks.create_task(identities.find(NAME))
        await eventually(lambda: broker.asked == 1)
        broker.topic_id = "second"
        late = [tasks.create_task(identities.find(TopicPartition(TOPIC, number))) for number in range(8)]
        await asyncio.sleep(0)
        broker.answers.set()
    assert early.result() == "first-3"
    assert [task.result() for task in late] == [f"second-{number}" for number in range(8)]
    assert broker.asked == 2
    broker.topic_id = "third"
    assert await identities.find(NAME) == "third-3"


async def test_a_failed_or_cancelled_lookup_leaves_nothing_behind() -> None:
    broker = Broker()
    identities = broker.identities()
    broker.fails = 1
    broker.answers.clear()
    async with asyncio.TaskGroup() as tasks:
        cancelled = tasks.create_task(identities.find(NAME))
        await eventually(lambda: broker.asked == 1)
        failing = tasks.create_task(failure(identities))
        going = tasks.create_task(identities.find(NAME))
        await asyncio.sleep(0)
        cancelled.cancel()
        await eventually(lambda: broker.asked == 2)
        broker.answers.set()
    assert failing.result() and going.result() == "first-3"


async def failure(identities: Identities) -> bool:
    with pytest.raises(BrokerNotAvailable):
        await identities.find(NAME)
    return True
