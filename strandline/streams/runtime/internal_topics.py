"""Creates the internal topics of a stream application: repartition topics and changelogs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from strandline.client.admin.admin import Admin
from strandline.client.admin.topics import TopicDescription
from strandline.client.retry import retry
from strandline.config.streams import StreamsSettings
from strandline.errors import (
    InvalidPartitions,
    InvalidReplicationFactor,
    OutcomeUnknown,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from strandline.ports import Clock
from strandline.streams.topology.subtopology import Subtopology

logger = logging.getLogger(__name__)

NEVER = "-1"


class InternalTopics:
    """The first member creates them. Changelogs are compacted; repartition topics keep everything."""

    def __init__(
        self, admin: Admin, subtopologies: Sequence[Subtopology], settings: StreamsSettings, clock: Clock
    ) -> None:
        self._admin = admin
        self._subtopologies = subtopologies
        self._settings = settings
        self._clock = clock
        self._partitions: dict[str, int] = {}
        self._replicas: dict[str, int] = {}

    async def prepare(self) -> None:
        """Return once all of them exist.

        Raises UnknownTopicOrPartition for a missing topic of the user, InvalidPartitions for a repartition
        topic that has another number of partitions than the topology says, and InvalidReplicationFactor if
        there are fewer brokers than replicas.
        """
        wanted: dict[str, int | None] = {}
        for subtopology in self._subtopologies:
            wanted |= subtopology.repartitions
        theirs = {topic for s in self._subtopologies for topic in (*s.topics, *s.sinks)} - wanted.keys()
        for found in await self._describe(sorted(theirs)):
            self._know(found)
        for subtopology in self._in_order():
            partitions = max(self._partitions[topic] for topic in subtopology.topics)
            replicas = self._settings.replication_factor
            if replicas is None:
                replicas = max(self._replicas[topic] for topic in subtopology.topics)
            for topic, asked in subtopology.repartitions.items():
                await self._ensure(topic, asked or partitions, replicas, {"retention.ms": NEVER}, exact=asked)
            if subtopology.changelog is not None:
                await self._ensure(subtopology.changelog, partitions, replicas, {"cleanup.policy": "compact"})

    async def grow(self, subtopology: Subtopology, partition: int) -> None:
        """Return once the changelog has this partition: the input topics may have grown. Waits for brokers
        if there are fewer than the changelog has replicas: another member could not run the task either."""
        assert subtopology.changelog is not None
        if partition < self._partitions[subtopology.changelog]:
            return
        (found,) = await self._describe([subtopology.changelog])
        self._know(found)
        if partition >= self._partitions[subtopology.changelog]:
            logger.info("%s gets %d partitions", subtopology.changelog, partition + 1)
            try:
                await self._with_brokers(
                    lambda: self._admin.alter_topic(found.name, partitions=partition + 1), found.name
                )
            except InvalidPartitions as error:
                logger.info("another member was first: %s", error)
            self._partitions[subtopology.changelog] = partition + 1

    def partitions(self, topics: Sequence[str]) -> int:
        """The largest partition count of these topics when they were prepared, which is their number of
        tasks; 0 before."""
        return max(self._partitions.get(topic, 0) for topic in topics)

    def _in_order(self) -> list[Subtopology]:
        """Writers of a repartition topic before its readers."""
        order: list[Subtopology] = []
        known = set(self._partitions)
        left = list(self._subtopologies)
        while left:
            ready = [s for s in left if known.issuperset(s.topics)]
            assert ready, f"subtopologies wait for each other: {left}"
            order += ready
            known.update(topic for s in ready for topic in s.repartitions)
            left = [s for s in left if s not in ready]
        return order

    async def _ensure(
        self,
        topic: str,
        partitions: int,
        replicas: int,
        config: Mapping[str, str],
        *,
        exact: int | None = None,
    ) -> None:
        try:
            await self._create(topic, partitions, replicas, config)
        except TopicAlreadyExists:
            (found,) = await self._describe([topic])
            self._know(found)
            if exact is not None and self._partitions[topic] != exact:
                raise InvalidPartitions(
                    f"{topic} has {self._partitions[topic]} partitions, and the topology says {exact}: "
                    f"delete the topic, or say {self._partitions[topic]}",
                    limit=self._partitions[topic],
                ) from None
        else:
            self._partitions[topic], self._replicas[topic] = partitions, replicas

    async def _create(self, topic: str, partitions: int, replicas: int, config: Mapping[str, str]) -> None:
        """Waits for brokers if there are fewer than the user's topics have replicas: those brokers come back.
        Does not wait for as many as the settings ask for: there may never be."""
        derived = self._settings.replication_factor is None
        limit_s = self._settings.delivery_timeout_ms / 1000
        await retry(
            lambda: self._with_brokers(
                lambda: self._admin.create_topic(topic, partitions, replicas, config),
                topic,
                limit_s=limit_s if derived else 0.0,
            ),
            f"it is not known if {topic} was created",
            settings=self._settings,
            clock=self._clock,
            limit_s=limit_s,
            retriable=lambda error: isinstance(error, OutcomeUnknown),
        )

    async def _with_brokers(
        self, ask: Callable[[], Awaitable[object]], topic: str, *, limit_s: float = float("inf")
    ) -> None:
        """Calls again while there are fewer brokers than replicas. Raises that error after `limit_s`."""
        await retry(
            ask,
            f"{topic} waits for brokers",
            settings=self._settings,
            clock=self._clock,
            limit_s=limit_s,
            retriable=lambda error: isinstance(error, InvalidReplicationFactor),
            level=logging.WARNING,
        )

    def _know(self, found: TopicDescription) -> None:
        self._partitions[found.name] = len(found.partitions)
        self._replicas[found.name] = len(found.partitions[0].replicas)

    async def _describe(self, topics: Sequence[str]) -> list[TopicDescription]:
        if not topics:
            return []
        try:
            return await self._admin.describe_topics(topics)
        except UnknownTopicOrPartition as error:
            raise UnknownTopicOrPartition(
                f"{error.message}: the topics that an application reads and writes have to be there before it"
            ) from error
