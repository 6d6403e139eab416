"""The active controller's view of all topics: how many replicas each broker has, and how many are placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from strandline.controller.core.placement import ReplicaAssignment
from strandline.ids import BrokerId, TopicId


@dataclass(frozen=True, slots=True)
class PlacedTopic:
    """One incarnation of a topic, and where its replicas are: one assignment per partition, in order."""

    topic_id: TopicId
    assignments: Sequence[ReplicaAssignment]


class ClusterPicture:
    """Topics as this controller's epoch knows them.

    A topic is added before it is written and removed if that failed, so that concurrent requests count each
    other's replicas. Changes that others made in ZooKeeper are noticed when a write is refused.
    """

    def __init__(self) -> None:
        self._topics: dict[str, PlacedTopic] = {}
        self._replicas: Counter[BrokerId] = Counter()
        self._placed = 0

    def __contains__(self, name: object) -> bool:
        return name in self._topics

    def topic_id(self, name: str) -> TopicId | None:
        """None if there is no such topic."""
        topic = self._topics.get(name)
        return None if topic is None else topic.topic_id

    @property
    def replicas(self) -> Mapping[BrokerId, int]:
        """The number of replicas assigned to each broker."""
        return self._replicas

    @property
    def placed(self) -> int:
        """Partitions placed so far; it never decreases, so that preferred leaders rotate."""
        return self._placed

    def add(self, name: str, topic: PlacedTopic) -> None:
        assert name not in self._topics, name
        self._topics[name] = topic
        self._placed += len(topic.assignments)
        for assignment in topic.assignments:
            self._replicas.update(assignment)

    def place(self, name: str, topic_id: TopicId, number: int, assignment: ReplicaAssignment) -> None:
        """This partition has another AR now; while replicas move it has the old and the new ones."""
        topic = self._topics.get(name)
        if topic is None or topic.topic_id != topic_id or number >= len(topic.assignments):
            return
        self._replicas.subtract(topic.assignments[number])
        self._replicas.update(assignment)
        before, after = topic.assignments[:number], topic.assignments[number + 1 :]
        self._topics[name] = replace(topic, assignments=[*before, assignment, *after])

    def grow(self, name: str, topic_id: TopicId, added: Sequence[ReplicaAssignment]) -> None:
        """This topic has more partitions now, or will have."""
        topic = self._topics.get(name)
        if topic is not None and topic.topic_id == topic_id:
            self._topics[name] = replace(topic, assignments=[*topic.assignments, *added])
            self._placed += len(added)
            for assignment in added:
                self._replicas.update(assignment)

    def shrink(self, name: str, topic_id: TopicId, partitions: int) -> None:
        """The partitions from this number on are not added after all."""
        topic = self._topics.get(name)
        if topic is not None and topic.topic_id == topic_id:
            for assignment in topic.assignments[partitions:]:
                self._replicas.subtract(assignment)
            self._topics[name] = replace(topic, assignments=topic.assignments[:partitions])

    def remove(self, name: str, topic_id: TopicId) -> None:
        """Forget this incarnation; another one of that name stays."""
        topic = self._topics.get(name)
        if topic is not None and topic.topic_id == topic_id:
            del self._topics[name]
            for assignment in topic.assignments:
                self._replicas.subtract(assignment)
