"""The shape that most requests and answers about partitions share: partitions by topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from strandline.broker.kafka.wire.table.rows import NEVER, STRING, UUID, Array, Kind, Row, Struct, row
from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition

P = TypeVar("P")
Q = TypeVar("Q")


class OfTopic(NamedTuple, Generic[P]):
    """What a message says about partitions of one topic. `topic_id`: in versions that have ids instead of
    names (KIP-516), also one of zeros; NO_TOPIC_ID in others."""

    name: str
    partitions: tuple[P, ...]
    topic_id: TopicId = NO_TOPIC_ID

    @property
    def unknown(self) -> bool:
        """True for an id that no topic known here has: the name is missing."""
        return bool(self.topic_id) and not self.name


Topics = tuple[OfTopic[P], ...]


def count(topics: Topics[Any]) -> int:
    """Partitions that a message names, each as often as it names it."""
    return sum(len(topic.partitions) for topic in topics)


def with_partitions(topics: Topics[P]) -> Topics[P]:
    """Without the topics of which a message names no partition: some answers leave them out."""
    return tuple([topic for topic in topics if topic.partitions])


def partitions_by_topic(
    partition: Kind,
    *,
    topic: str = "name",
    partitions: str = "partitions",
    large: bool = False,
    ids_since: int = NEVER,
) -> Array:
    """An array of topics, each with an array of partitions. The names are Kafka's. `ids_since`: the first
    version that has the topics' ids instead of their names."""
    name = STRING(topic, "name", until=ids_since - 1, absent="")
    numbers = row(partitions, Array(partition, large=large), "partitions")
    return Array(Struct(OfTopic, name, UUID("topic_id", since=ids_since), numbers))


def topics(
    partition: Kind,
    name: str = "topics",
    *,
    to: str = "topics",
    nullable: int = NEVER,
    since: int = 0,
    **names: Any,
) -> Row:
    """The field with partitions by topic, which most messages about partitions have."""
    return row(name, partitions_by_topic(partition, **names), to, nullable=nullable, since=since)


def each_partition(topics: Topics[P]) -> Iterator[tuple[str, P]]:
    """Pairs of topic name and partition, in the order of the message."""
    return ((topic.name, partition) for topic in topics for partition in topic.partitions)


def names_of(topics: Topics[int]) -> Iterator[TopicPartition]:
    """The partitions that a message names by their numbers alone, in its order."""
    return (TopicPartition(topic, number) for topic, number in each_partition(topics))


def named(topics: Topics[P], name_of: Callable[[OfTopic[P]], str | None]) -> Topics[P]:
    """The topics of a message that has ids, with their names; without one that is not known. Of a message
    that has names, the same."""
    if not any(topic.topic_id for topic in topics):
        return topics
    return tuple([topic._replace(name=name_of(topic) or "") for topic in topics])


def answering(topics: Topics[Any], answers: Iterable[Q]) -> Topics[Q]:
    """One answer for each partition, in order, by topic as in the request."""
    found = iter(answers)
    return tuple(
        [OfTopic(topic.name, tuple(islice(found, len(topic.partitions))), topic.topic_id) for topic in topics]
    )


def by_topic(pairs: Iterable[tuple[str, Q]]) -> Topics[Q]:
    """Neighbours of one topic become one entry; the order stays."""
    found: list[tuple[str, list[Q]]] = []
    for name, partition in pairs:
        if not found or found[-1][0] != name:
            found.append((name, []))
        found[-1][1].append(partition)
    return tuple([OfTopic(name, tuple(partitions)) for name, partitions in found])
