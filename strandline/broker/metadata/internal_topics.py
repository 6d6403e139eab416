"""The system's own topics, created at their first use."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from strandline.adapters.codecs.admin import CREATE_TOPICS
from strandline.adapters.rpc.member_key import MemberKey
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.replicas.manager import ReplicaManager
from strandline.client.controller_link import ControllerLink
from strandline.client.events.writer import EventWriter
from strandline.config.limits import MIB
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    CoordinatorNotAvailable,
    LeaderNotAvailable,
    StrandlineError,
    TopicAlreadyExists,
)
from strandline.ids import GROUP_EVENTS_TOPIC, OFFSETS_TOPIC, STATE_CHANGES_TOPIC, TRANSACTIONS_TOPIC
from strandline.vocabulary.admin import CreateTopics, NewTopic
from strandline.vocabulary.metadata import Endpoint, TopicMetadata

logger = structlog.get_logger(__name__)

STATE_SEGMENT_BYTES: Final = 8 * MIB
"""Of coordinators' topics. A new coordinator reads what was not compacted yet, which is at least the last
segment."""

_OF_COORDINATORS: Final = {"cleanup.policy": "compact", "segment.bytes": str(STATE_SEGMENT_BYTES)}
"""The config of a topic whose leaders are coordinators."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """The config of an internal topic at its creation; administrators may change it later."""

    name: str
    partitions: int
    replication_factor: int
    """The number of replicas; if fewer brokers are alive, that number."""
    config: Mapping[str, str] = field(default_factory=dict)


def offsets_topic(settings: BrokerSettings) -> InternalTopic:
    return InternalTopic(
        OFFSETS_TOPIC,
        settings.offsets_topic_partitions,
        settings.offsets_topic_replication_factor,
        _OF_COORDINATORS,
    )


def transactions_topic(settings: BrokerSettings) -> InternalTopic:
    return InternalTopic(
        TRANSACTIONS_TOPIC,
        settings.transaction_state_topic_partitions,
        settings.transaction_state_topic_replication_factor,
        _OF_COORDINATORS,
    )


def group_events_topic(settings: BrokerSettings) -> InternalTopic:
    return InternalTopic(
        GROUP_EVENTS_TOPIC,
        settings.group_events_topic_partitions,
        settings.offsets_topic_replication_factor,
        {"cleanup.policy": "delete"},
    )


def state_changes_topic(settings: BrokerSettings) -> InternalTopic:
    return InternalTopic(
        STATE_CHANGES_TOPIC,
        settings.state_changes_topic_partitions,
        settings.state_changes_topic_replication_factor,
        {"cleanup.policy": "delete"},
    )


class InternalTopics:
    """Finds internal topics, and has the active controller create missing ones."""

    def __init__(self, manager: ReplicaManager, view: ClusterView, controller: ControllerLink) -> None:
        self._manager = manager
        self._view = view
        self._controller = controller
        self._creating = asyncio.Lock()

    async def find(self, topic: InternalTopic) -> TopicMetadata:
        """Returns the present topic, created if necessary. Raises CoordinatorNotAvailable: ask again."""
        found = await self._look(topic.name)
        if found is not None:
            return found
        async with self._creating:
            found = await self._look(topic.name)
            if found is None:
                await self._create(topic)
                found = await self._look(topic.name)
        if found is None:
            raise CoordinatorNotAvailable(f"topic {topic.name} is being created")
        return found

    def event_writer(
        self, topic: InternalTopic, endpoint: Endpoint, settings: BrokerSettings, key: MemberKey
    ) -> EventWriter:
        """A writer of this broker into the topic, which has it created when it is first needed."""
        host = self._manager.host
        return EventWriter(
            endpoint.address,
            topic.name,
            events_max=settings.events_waiting_max,
            prepare=lambda: self.find(topic),
            transport=host.transport(key.shown),
            clock=host.clock,
        )

    async def _look(self, name: str) -> TopicMetadata | None:
        try:
            cluster, _ = await self._view.describe([name])
        except LeaderNotAvailable as error:
            raise CoordinatorNotAvailable(error.message) from error
        return cluster.topics[0] if cluster.topics else None

    async def _create(self, topic: InternalTopic) -> None:
        """Has the controller create the topic. If another broker did so already, that is fine."""
        try:
            cluster, _ = await self._view.describe((), omit_topics=True)
            self._controller.learn(cluster)
            alive = len(cluster.brokers)
            replicas = max(1, min(topic.replication_factor, alive))
            new = NewTopic(topic.name, topic.partitions, replicas, topic.config)
            request = CreateTopics([new], validate_only=False, internal=True)
            (result,) = await self._controller.call(CREATE_TOPICS, request)
        except StrandlineError as error:
            raise CoordinatorNotAvailable(
                f"topic {topic.name} could not be created now: {error.message}"
            ) from error
        if isinstance(result.error, TopicAlreadyExists):
            return
        if result.error is not None:
            logger.error("internal topic not created", topic=topic.name, reason=result.error.message)
            raise CoordinatorNotAvailable(f"topic {topic.name} could not be created: {result.error.message}")
        logger.info(
            "internal topic created",
            topic=topic.name,
            partitions=topic.partitions,
            replication_factor=replicas,
        )
        if replicas < topic.replication_factor:
            logger.warning(
                "an internal topic has fewer replicas than it should: too few brokers are alive",
                topic=topic.name,
                replication_factor=replicas,
                wanted=topic.replication_factor,
            )
