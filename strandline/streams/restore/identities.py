"""Identifies changelogs, so that another topic with the same name is detected."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from strandline.client.cluster import Cluster
from strandline.errors import UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.vocabulary.log import MetadataAnswer, MetadataQuery


class _Topic:
    """The last answer for one topic."""

    def __init__(self) -> None:
        self.asking = asyncio.Lock()
        self.asked = 0
        self.answer: MetadataAnswer | None = None


class Identities:
    """Looks up identities. Concurrent lookups for one topic share one request.

    Otherwise a thousand starting tasks would each request the metadata of all thousand partitions.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics: defaultdict[str, _Topic] = defaultdict(_Topic)

    async def find(self, changelog: TopicPartition) -> str:
        """The topic's id and the partition, as of a time after the call.

        Raises UnknownTopicOrPartition, BrokerNotAvailable.
        """
        answer = await self._ask(changelog.topic)
        for topic in answer.cluster.topics:
            if topic.name == changelog.topic and changelog.partition < len(topic.partitions):
                return f"{topic.topic_id}-{changelog.partition}"
        raise answer.errors.get(changelog.topic) or UnknownTopicOrPartition(f"{changelog} does not exist")

    async def _ask(self, name: str) -> MetadataAnswer:
        topic = self._topics[name]
        before = topic.asked
        async with topic.asking:
            # The previous holder's request may have begun before this call: only a later request counts.
            if topic.answer is None or topic.asked == before:
                topic.asked += 1
                topic.answer = None
                topic.answer = await self._cluster.ask(MetadataQuery([name]))
            return topic.answer
