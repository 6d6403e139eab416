"""The replicas on one broker, open and closed, by their keys and by their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from strandline.broker.replicas.replica import Replica
from strandline.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from strandline.ids import BrokerId, PartitionKey, TopicPartition


class ReplicaTable:
    """Iteration is over the open replicas, as they were when it began."""

    def __init__(self, me: BrokerId) -> None:
        self._me = me
        self._open: dict[PartitionKey, Replica] = {}
        self._by_name: dict[TopicPartition, Replica] = {}
        self._closed: dict[PartitionKey, Replica] = {}
        """Closed replicas. No task uses them, so they are in neither of the two above."""
        self._closed_names: Counter[TopicPartition] = Counter()
        """Closed replicas by name: several, of earlier incarnations, may have the same."""

    def __iter__(self) -> Iterator[Replica]:
        return iter(tuple(self._open.values()))

    def all(self) -> list[Replica]:
        """All replicas, including closed ones."""
        return [*self._open.values(), *self._closed.values()]

    def all_closed(self) -> list[Replica]:
        return [*self._closed.values()]

    def get(self, key: PartitionKey) -> Replica | None:
        """The replica, if it is here and open."""
        return self._open.get(key)

    def closed(self, key: PartitionKey) -> Replica | None:
        """The replica, if it is here and closed."""
        return self._closed.get(key)

    def find(self, name: TopicPartition) -> Replica | None:
        """The open replica of a partition."""
        return self._by_name.get(name)

    def named(self, topic: str, partition: int) -> Replica:
        """The replica of a partition. Raises UnknownTopicOrPartition, and NotLeaderOrFollower for a closed
        one."""
        name = TopicPartition(topic, partition)
        replica = self._by_name.get(name)
        if replica is None:
            if name in self._closed_names:
                raise NotLeaderOrFollower(f"the replica of {name} on broker {self._me} is closed")
            raise UnknownTopicOrPartition(f"broker {self._me} has no replica of {topic}-{partition}")
        return replica

    def known(self, key: PartitionKey, topic: str) -> Replica:
        """The replica of an incarnation. Raises UnknownTopicOrPartition, and NotLeaderOrFollower for a closed
        one."""
        replica = self._open.get(key)
        if replica is None:
            if key in self._closed:
                raise NotLeaderOrFollower(f"the replica of {topic}-{key.partition} here is closed")
            raise UnknownTopicOrPartition(
                f"broker {self._me} has no replica of {topic}-{key.partition} with topic id {key.topic_id}"
            )
        return replica

    def put(self, replica: Replica) -> None:
        """Adds an open replica, or one that was opened again. Its name means this one from now on."""
        if replica.key in self._closed:
            self.forget(replica)
        self._open[replica.key] = self._by_name[replica.name] = replica

    def close(self, replica: Replica) -> None:
        """From now on the replica is closed."""
        del self._open[replica.key]
        if self._by_name.get(replica.name) is replica:
            del self._by_name[replica.name]
        self._closed[replica.key] = replica
        self._closed_names[replica.name] += 1

    def forget(self, replica: Replica) -> None:
        """Removes a closed replica."""
        del self._closed[replica.key]
        self._closed_names[replica.name] -= 1
        if not self._closed_names[replica.name]:
            del self._closed_names[replica.name]
