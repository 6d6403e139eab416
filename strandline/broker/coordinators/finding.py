"""From a key, a group or a transactional id, to the broker that coordinates it, or to its partition here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic

from strandline.broker.coordinators.kind import Kind
from strandline.broker.coordinators.led_partitions import Led, LedPartitions
from strandline.broker.coordinators.placement import partition_of
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.metadata.internal_topics import InternalTopic, InternalTopics
from strandline.broker.replicas.manager import ReplicaManager
from strandline.errors import (
    CoordinatorNotAvailable,
    LeaderHint,
    LeaderNotAvailable,
    NotCoordinator,
    StrandlineError,
)
from strandline.ids import BrokerId, PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.tasks import Slices
from strandline.vocabulary.metadata import Endpoint, PartitionMetadata, Registration, TopicMetadata


class CoordinatorFinder(Generic[Led]):
    """A request goes to the partition of the coordinators' topic that its key belongs to. If another broker
    leads that, the answer is NotCoordinator, and names it."""

    def __init__(
        self,
        kind: Kind,
        manager: ReplicaManager,
        view: ClusterView,
        led: LedPartitions[Led],
        topics: InternalTopics,
        topic: InternalTopic,
    ) -> None:
        self._kind = kind
        self._manager = manager
        self._view = view
        self._led = led
        self._topics = topics
        self._topic = topic
        self._size: tuple[TopicId, int] | None = None
        """The topic's incarnation and the number of its partitions, which never changes."""
        self._leaders: dict[int, BrokerId] = {}
        """Of partitions that have no replica here, as they were last found."""

    # --- the broker --------------------------------------------------------------------------

    async def find_all(
        self, keys: Iterable[str], check: Callable[[str], None]
    ) -> list[Endpoint | StrandlineError]:
        """For each key, the broker that leads its partition, or why there is none. `check` raises what
        refuses a key. The topic is looked for once, or created.

        A replica of a partition knows its leader without ZooKeeper, too.
        """
        slices, found = Slices(self._manager.clock), list[Endpoint | StrandlineError]()
        topic: TopicMetadata | StrandlineError | None = None
        for key in keys:
            if slices.used_up:
                await slices.next()
            try:
                check(key)
                registration = self._leader_of_own_replica(key)
                if registration is None:
                    topic = await self._find_topic() if topic is None else topic
                    registration = self._leader_of(topic, key)
                found.append(registration.endpoint)
            except StrandlineError as error:
                found.append(error)
        return found

    async def leader(self, key: str) -> BrokerId:
        """The broker that coordinates the key, as far as is known: see `forget`. Raises
        CoordinatorNotAvailable."""
        number = None if self._size is None else partition_of(key, self._size[1])
        if number is not None and number in self._leaders:
            return self._leaders[number]
        registration = self._leader_of_own_replica(key)
        if registration is None:
            topic = await self._find_topic()
            registration = self._leader_of(topic, key)
            if not isinstance(topic, StrandlineError):
                self._leaders[_partition(topic, key).partition] = registration.id
        return registration.id

    def forget(self, key: str) -> None:
        """The broker that `leader` returned does not coordinate the key: look again next time."""
        if self._size is not None:
            self._leaders.pop(partition_of(key, self._size[1]), None)

    async def place(self, key: str) -> TopicPartition:
        """The partition that the key belongs to; the topic is created if there is none. Raises
        CoordinatorNotAvailable."""
        if self._size is None:
            topic = await self._find_topic()
            if isinstance(topic, StrandlineError):
                raise topic
        assert self._size is not None
        return TopicPartition(self._kind.topic, partition_of(key, self._size[1]))

    async def _find_topic(self) -> TopicMetadata | StrandlineError:
        try:
            topic = await self._topics.find(self._topic)
        except StrandlineError as error:
            return error
        self._size = topic.topic_id, len(topic.partitions)
        return topic

    def _leader_of(self, topic: TopicMetadata | StrandlineError, key: str) -> Registration:
        if isinstance(topic, StrandlineError):
            raise topic
        led = _partition(topic, key)
        registration = self._manager.live.get(BrokerId(led.leader))
        if registration is None:
            raise CoordinatorNotAvailable(f"{self._kind.topic}-{led.partition} has no leader now")
        return registration

    def _leader_of_own_replica(self, key: str) -> Registration | None:
        if self._size is None:
            return None
        topic_id, partitions = self._size
        replica = self._manager.get(PartitionKey(topic_id, PartitionId(partition_of(key, partitions))))
        return None if replica is None else self._manager.live.get(replica.leader)

    # --- the partition here ------------------------------------------------------------------

    async def here(self, key: str) -> Led:
        """The key's partition, led by this broker. Raises NotCoordinator, CoordinatorNotAvailable."""
        partition = self._led_here(key)
        return await self._find_here(key) if partition is None else partition

    def _led_here(self, key: str) -> Led | None:
        """The key's partition, if this broker leads it and knows the number of partitions."""
        if self._size is None or self._size[0] != self._led.topic_id:
            return None
        return self._led.get(partition_of(key, self._size[1]))

    async def _find_here(self, key: str) -> Led:
        """The key's partition, after the topic has been read."""
        try:
            cluster, _ = await self._view.describe([self._kind.topic])
        except LeaderNotAvailable as error:
            raise CoordinatorNotAvailable(error.message) from error
        if not cluster.topics:
            raise NotCoordinator(f"no {self._kind.one} has a coordinator yet: find one first")
        topic = cluster.topics[0]
        self._size = topic.topic_id, len(topic.partitions)
        partition = self._led_here(key)
        if partition is None:
            led = _partition(topic, key)
            raise NotCoordinator(
                f"this broker does not coordinate {self._kind.one} {key!r} of "
                f"{self._kind.topic}-{led.partition}",
                leader=self._hint(led),
            )
        return partition

    def _hint(self, led: PartitionMetadata) -> LeaderHint | None:
        registration = self._manager.live.get(BrokerId(led.leader))
        if registration is None or led.leader == self._manager.me:
            return None
        end = registration.endpoint
        return LeaderHint(end.id, end.host, end.port, led.leader_epoch, end.external)


def _partition(topic: TopicMetadata, key: str) -> PartitionMetadata:
    return topic.partitions[partition_of(key, len(topic.partitions))]
